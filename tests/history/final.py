"""End of a run: wait until every transaction is decided, then read all records once more."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.history.clients.common import KEYS, key_of, partition_of
from tests.history.clients.reader import consumer, record_of
from tests.history.journal import Journal
from tests.history.operations import ASSIGN, COMMITTED, OK, UNCOMMITTED
from tests.history.timeline import LEVELS

STABLE_SECONDS = 30.0
"""Time limit longer than a transaction's timeout and its abort."""
READ_SECONDS = 60.0
ANSWER_SECONDS = 10.0


def ends_of(admin: Any, keys: Iterable[str], level: str) -> dict[str, int]:
    """Return the last stable offset of each key, or the high watermark."""
    asked = {TopicPartition(*partition_of(key)): OffsetSpec.latest() for key in keys}
    isolation = IsolationLevel.READ_COMMITTED if level == COMMITTED else IsolationLevel.READ_UNCOMMITTED
    reported = admin.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_SECONDS)
    return {key_of(place.topic, place.partition): future.result().offset for place, future in reported.items()}


def settle(bootstrap_servers: str, journal: Journal) -> None:
    """Wait until open transactions end by their timeout, after the last write."""
    given_up = time.monotonic() + STABLE_SECONDS
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    while True:
        stable, ends = (ends_of(admin, KEYS, level) for level in (COMMITTED, UNCOMMITTED))
        open_ones = [key for key in KEYS if stable[key] < ends[key]]
        if not open_ones:
            return
        if time.monotonic() > given_up:
            break
        time.sleep(0.1)
    for key in open_ones:
        journal.note("final", "hanging", key=key, last_stable_offset=stable[key], end=ends[key])


def read_all(bootstrap_servers: str, journal: Journal) -> None:
    """Read every key from its beginning to its end, at both levels."""
    for level in LEVELS:
        process = f"final-{level}"
        reading = consumer(bootstrap_servers, level, enable_partition_eof=True)
        reading.assign([TopicPartition(*partition_of(key), OFFSET_BEGINNING) for key in KEYS])
        journal.note(process, "assign", keys=KEYS)
        ends = _read(reading, process, level, journal)
        reading.close()
        for key, end in ends.items():
            journal.note(process, "final", key=key, end=end, level=level)


def _read(reading: Any, process: str, level: str, journal: Journal) -> dict[str, int]:
    """Read, and return the end of each key that was read so far."""
    ends: dict[str, int] = {}
    given_up = time.monotonic() + READ_SECONDS
    while len(ends) < len(KEYS) and time.monotonic() < given_up:
        complete = journal.invoke(process, "poll", level=level, mode=ASSIGN)
        messages = reading.consume(500, 1.0)
        complete(OK, records=[record_of(message) for message in messages if message.error() is None])
        for message in messages:
            if message.error() is not None and message.error().name() == "_PARTITION_EOF":
                ends[f"{message.topic()}-{message.partition()}"] = message.offset()
    return ends


def journals(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"))
