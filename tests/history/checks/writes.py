"""Checks of writes: lost, duplicated, or at another offset than acknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.findings import Finding
from tests.history.operations import COMMITTED, UNCOMMITTED, Send
from tests.history.timeline import LEVELS, Place, Timeline


def lost_writes(timeline: Timeline) -> Iterator[Finding]:
    """Yield values that must exist, but that no reader of a level found although readers passed their offset."""
    for send in timeline.sends:
        for level in LEVELS:
            if _is_passed(timeline, send, level) and send.value not in timeline.seen[level]:
                text = f"{send.value} is at {send.key}:{send.offset}, and no {level} reader saw it"
                yield Finding("lost write", text, transactions=timeline.names([send.value]))
                break


def _is_passed(timeline: Timeline, send: Send, level: str) -> bool:
    if send.offset is None or not timeline.is_certain(send, level):
        return False
    return send.offset <= timeline.highest[level].get(send.key, -1)


def unseen(timeline: Timeline) -> Iterator[Finding]:
    """Yield values that must exist, but that the final reads did not find, with no known record after them."""
    for send in timeline.sends:
        for level in LEVELS:
            is_due = timeline.is_certain(send, level) and send.key in timeline.ends[level]
            if is_due and send.value not in timeline.seen[level] and not _is_passed(timeline, send, level):
                text = f"{send.value} was acknowledged for {send.key}, and no {level} reader ever saw it"
                yield Finding("unseen", text, transactions=timeline.names([send.value]))
                break


def _known_places(timeline: Timeline) -> dict[str, set[Place]]:
    """Return the offsets of each value according to its acknowledgement and its readers."""
    found: dict[str, set[Place]] = defaultdict(set)
    for value, places in timeline.places.items():
        found[value] |= places
    for send in timeline.sends:
        if send.offset is not None:
            found[send.value].add((send.key, send.offset))
    return found


def duplicates(timeline: Timeline) -> Iterator[Finding]:
    """Yield values at several offsets, or with several committed copies."""
    for value, places in _known_places(timeline).items():
        if len(places) > 1:
            where = ", ".join(f"{key}:{offset}" for key, offset in sorted(places))
            yield Finding("duplicate", f"{value} is at {where}", transactions=timeline.names([value]))

    copies: dict[str, list[str]] = defaultdict(list)
    for send in timeline.sends:
        if send.source is not None and (send.value in timeline.seen[COMMITTED] or timeline.is_certain(send, COMMITTED)):
            copies[send.source].append(send.value)
    for source, values in copies.items():
        if len(values) > 1:
            text = f"{', '.join(values)} are all copies of {source}"
            yield Finding("duplicate", text, transactions=timeline.names(values))


def inconsistent_offsets(timeline: Timeline) -> Iterator[Finding]:
    """Yield offsets with several values."""
    values: dict[Place, set[str]] = defaultdict(set)
    for value, places in _known_places(timeline).items():
        for place in places:
            values[place].add(value)
    for (key, offset), here in values.items():
        if len(here) > 1:
            text = f"{', '.join(sorted(here))} are all at {key}:{offset}"
            yield Finding("inconsistent offsets", text, transactions=timeline.names(here))


def spurious_offsets(timeline: Timeline) -> Iterator[Finding]:
    """Yield values that the final reads did not find at the acknowledged offset, which they covered."""
    for send in timeline.sends:
        if send.offset is None or (send.key, send.offset) in timeline.places.get(send.value, ()):
            continue
        levels = [level for level in (UNCOMMITTED, COMMITTED) if timeline.is_certain(send, level)]
        if any(send.offset < timeline.ends[level].get(send.key, 0) for level in levels):
            text = f"{send.value} was acknowledged at {send.key}:{send.offset}, where no read found it"
            yield Finding("spurious offset", text, transactions=timeline.names([send.value]))
