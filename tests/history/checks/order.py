"""Checks of order: reads of one process, and offsets of its writes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from tests.history.findings import ALLOWED, BAD, Finding
from tests.history.operations import ASSIGN, OK, UNCOMMITTED, Assign, Poll, Send
from tests.history.timeline import Timeline


class Reader:
    """Positions of one process."""

    def __init__(self, timeline: Timeline, process: str) -> None:
        self._timeline = timeline
        self._process = process
        self._last: dict[str, int] = {}

    def assign(self, keys: list[str]) -> None:
        for key in keys:
            self._last.pop(key, None)

    def poll(self, poll: Poll) -> Iterator[Finding]:
        inside: set[str] = set()
        for key, offset, _ in poll.records:
            last = self._last.get(key)
            if last is not None and not poll.rebalanced:
                yield from self._step(poll, key, last, offset, is_inside=key in inside)
            inside.add(key)
            self._last[key] = offset

    def _step(self, poll: Poll, key: str, last: int, offset: int, *, is_inside: bool) -> Iterator[Finding]:
        prefix = "int " if is_inside else ""
        verdict = BAD if is_inside or poll.mode == ASSIGN else ALLOWED
        if offset <= last:
            text = f"{self._process} read {key}:{offset} after {key}:{last}"
            yield Finding(f"{prefix}nonmonotonic poll", text, verdict)
        elif jumped := self._between(poll.level, key, last, offset):
            text = f"{self._process} read {key}:{offset} after {key}:{last}, without {', '.join(jumped)}"
            yield Finding(f"{prefix}poll skip", text, verdict, self._timeline.names(jumped))

    def _between(self, level: str, key: str, last: int, offset: int) -> list[str]:
        """Return known values that were skipped."""
        log = self._timeline.log[level].get(key, [])
        return [value for _, value in log[bisect_left(log, (last + 1, "")) : bisect_left(log, (offset, ""))]]


def poll_order(timeline: Timeline) -> Iterator[Finding]:
    """Yield polls that go back or skip existing records, inside one poll and between polls."""
    readers: dict[str, Reader] = {}
    for operation in timeline.operations:
        if isinstance(operation, Assign | Poll) and operation.process not in readers:
            readers[operation.process] = Reader(timeline, operation.process)
        if isinstance(operation, Assign):
            readers[operation.process].assign(operation.keys)
        elif isinstance(operation, Poll) and operation.outcome == OK:
            yield from readers[operation.process].poll(operation)


def send_order(timeline: Timeline) -> Iterator[Finding]:
    """Yield acknowledged writes of one process to one key with offsets in reverse order."""
    last: dict[tuple[str, str], Send] = {}
    for send in timeline.sends:
        if send.offset is None or send.outcome != OK:
            continue
        before = last.get((send.process, send.key))
        if before is not None and before.offset is not None and send.offset <= before.offset:
            is_inside = send.transaction is not None and send.transaction == before.transaction
            name = f"{'int ' if is_inside else ''}nonmonotonic send"
            text = (
                f"{send.process} sent {before.value}, then {send.value}: {send.key}:{before.offset}, then {send.offset}"
            )
            yield Finding(name, text, transactions=timeline.names([before.value, send.value]))
        last[send.process, send.key] = send


def interleaved_sends(timeline: Timeline) -> Iterator[Finding]:
    """Yield transactions with other clients' writes between their own in a key: Kafka allows it."""
    for transaction in timeline.transactions.values():
        for key in {send.key for send in transaction.sends}:
            log = timeline.log[UNCOMMITTED].get(key, [])
            own = {send.value for send in transaction.sends}
            places = [index for index, (_, value) in _span(log, key, transaction.sends) if value in own]
            if any(second - first > 1 for first, second in pairwise(places)):
                text = f"others write to {key} within {transaction.name}"
                yield Finding("int send skip", text, ALLOWED, (transaction.name,))


def _span(log: list[tuple[int, str]], key: str, sends: list[Send]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the entries between the first and the last of these sends, with their place in the log."""
    offsets = [send.offset for send in sends if send.key == key and send.offset is not None]
    if not offsets:
        return
    first, last = bisect_left(log, (min(offsets), "")), bisect_left(log, (max(offsets) + 1, ""))
    yield from enumerate(log[first:last], first)
