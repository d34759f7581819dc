"""Check of a round: each committed record must be in every output once, in whatever way the round was disturbed.

A record is required if it exists at the end, or if a query had committed its batch before records could be deleted.
Other committed records were deleted while they may have been read: each is in an output once, or not at all. Nothing
else may be in an output.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from spark_jobs.faults.reading import Found, Offsets
from spark_jobs.faults.stream import Entry, Ledger
from spark_jobs.pipeline.device_events import Kind
from spark_jobs.tests import expected

SHOWN_MAX = 3
WATERMARK_SECONDS = 360
WINDOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Topic:
    """Life of an input topic: its ledger, and its records at the end."""

    ledger: Ledger
    left: frozenset[tuple[int, int]]
    """Places of the records that exist at the end."""
    read: Mapping[str, Offsets]
    """For each query, end offsets of its committed batches before records could be deleted."""
    skipped: Mapping[str, Offsets] = field(default_factory=dict)
    """For each query, offsets before which it read nothing: Spark continues a topic made anew by its offsets."""

    def is_required(self, each: Entry, query: str) -> bool:
        if each.offset < self.skipped.get(query, {}).get(each.partition, 0):
            return False
        was_read = each.offset < self.read.get(query, {}).get(each.partition, 0)
        return was_read or (each.partition, each.offset) in self.left

    def is_allowed(self, each: Entry, query: str) -> bool:
        return each.offset >= self.skipped.get(query, {}).get(each.partition, 0)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Tables and topics of a round."""

    rows: Mapping[str, list[Any]]
    """Rows of the tables by name."""
    copies: list[Found]
    dead_letters: list[Found]
    counts: list[Found]


def differences(output: str, found: Iterable[Hashable], required: Counter[Any], allowed: Counter[Any]) -> list[str]:
    """Return the records that an output lacks, and those that it has too often."""
    counted = Counter(found)
    missing, extra = required - counted, counted - allowed
    return [
        f"{output}: {each.total()} {word}: {', '.join(map(repr, list(each)[:SHOWN_MAX]))}"
        for word, each in (("missing", missing), ("more than once, or never committed", extra))
        if each
    ]


def place_of(each: Entry) -> tuple[int, int, bytes]:
    return each.partition, each.offset, each.sent.text.encode()


def check(topics: list[Topic], queries: Iterable[str], outputs: Outputs) -> list[str]:
    """Return what is wrong with the outputs."""
    found = _places("raw", topics, outputs.rows.get("raw", []))
    found += _copies(topics, outputs.copies)
    if "dead_letters" in queries:
        found += _dead_letters(topics, outputs.dead_letters)
    if "cleaned" in queries:
        found += _cleaned(topics, [event_id for (event_id,) in outputs.rows.get("cleaned", [])])
    if "counts" in queries:
        found += _counts(topics, outputs)
    return found


def _wanted(topics: list[Topic], query: str) -> tuple[list[Entry], list[Entry]]:
    """Return the required and the allowed records of a query."""
    pairs = [(topic, each) for topic in topics for each in topic.ledger.entries]
    required = [each for topic, each in pairs if topic.is_required(each, query)]
    return required, [each for topic, each in pairs if topic.is_allowed(each, query)]


def _places(query: str, topics: list[Topic], rows: Iterable[Hashable]) -> list[str]:
    required, allowed = _wanted(topics, query)
    return differences(query, rows, Counter(map(place_of, required)), Counter(map(place_of, allowed)))


def _copies(topics: list[Topic], copies: list[Found]) -> list[str]:
    """Check the copies, and their order for each key."""
    rows = []
    for each in copies:
        partition, offset, value = each.value.split(b" ", 2)
        rows.append((int(partition), int(offset), value))
    order = {
        (topic_number, *place_of(each)): number
        for topic_number, topic in enumerate(topics)
        for number, each in enumerate(topic.ledger.entries)
    }
    by_key: dict[Any, list[tuple[int, int]]] = {}
    for copy, row in zip(copies, rows, strict=True):
        before = by_key.setdefault((copy.partition, copy.key), [])
        places = [(number, order[number, *row]) for number in range(len(topics)) if (number, *row) in order]
        later = [place for place in places if not before or place >= before[-1]]
        before += (later or places)[:1]
    disordered = [key for key, numbers in by_key.items() if numbers != sorted(numbers)]
    said = [f"copies: {len(disordered)} keys out of order: {disordered[:SHOWN_MAX]}"] if disordered else []
    return _places("copies", topics, rows) + said


def _dead_letters(topics: list[Topic], letters: list[Found]) -> list[str]:
    rows = [(int(each.headers["partition"] or b""), int(each.headers["offset"] or b""), each.value) for each in letters]
    required, allowed = (
        Counter(place_of(each) for each in entries if each.sent.kind is Kind.DEAD_LETTER)
        for entries in _wanted(topics, "dead_letters")
    )
    return differences("dead letters", rows, required, allowed)


def _cleaned(topics: list[Topic], event_ids: list[str]) -> list[str]:
    required, allowed = (
        Counter({_id(each): 1 for each in entries if each.sent.kind is not Kind.DEAD_LETTER})
        for entries in _wanted(topics, "cleaned")
    )
    return differences("cleaned", event_ids, required, allowed)


def _id(each: Entry) -> str:
    return str(json.loads(each.sent.text)["event_id"])


def _counts(topics: list[Topic], outputs: Outputs) -> list[str]:
    events = [each for topic in topics for each in topic.ledger.events]
    until = expected.watermark(events, WATERMARK_SECONDS)
    windows = Counter((*key, *values) for key, values in expected.windows(events, WINDOW_SECONDS, until).items())
    messages = [_window(json.loads(each.value, parse_float=Decimal)) for each in outputs.counts]
    found = differences("table of counts", outputs.rows.get("counts", []), windows, windows)
    return found + differences("topic of counts", messages, windows, windows)


def _window(message: Mapping[str, Any]) -> tuple[Any, ...]:
    start = int(datetime.fromisoformat(message["window_start"]).timestamp())
    values = (Decimal(message[name]) for name in ("minimum", "maximum", "sum"))
    return start, message["kind"], message["count"], *values
