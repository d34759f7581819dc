"""Checks of share groups: the history's acquisitions and acknowledgements as events of share_checker.py.

Clients do not show which broker delivered a record, so double acquisitions are not searched.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.history.clients.common import partition_of
from tests.history.findings import Finding
from tests.history.operations import OK, Acknowledge, Acquire, Drained, Operation, Unreadable
from tests.history.share_checker import check_shares
from tests.history.share_events import Acknowledged, Delivery, Event, Sent
from tests.history.timeline import Timeline

SECOND = 1_000_000_000
LOCK_SECONDS = 4.0
DELIVERIES_MAX = 10
"""Configuration of the share groups in histories. A killed member may have received records that no journal has."""


def share_groups(timeline: Timeline) -> Iterator[Finding]:
    """Yield the anomalies of all share groups."""
    drained = {each.group: each.keys for each in timeline.all(Drained)}
    for group in sorted({each.group for each in timeline.all(Acquire)} | drained.keys()):
        topics = {partition_of(key)[0] for key in drained.get(group, ())} or _topics(timeline, group)
        for topic in sorted(topics):
            events = list(_events(timeline, group, topic))
            found = check_shares(events, lock_seconds=LOCK_SECONDS, limit=DELIVERIES_MAX, is_drained=group in drained)
            for finding in found:
                yield Finding(finding.name, f"{group}: {topic}-{finding.text}")
    for unreadable in timeline.all(Unreadable):
        for key, offset, error in unreadable.records:
            yield Finding("unreadable record", f"{unreadable.process} got {key} offset {offset} with {error}")


def _topics(timeline: Timeline, group: str) -> set[str]:
    return {partition_of(key)[0] for each in timeline.all(Acquire) if each.group == group for key, _, _ in each.records}


def _events(timeline: Timeline, group: str, topic: str) -> Iterator[Event]:
    for send in timeline.sends:
        at, partition = partition_of(send.key)
        if at == topic and send.outcome == OK and send.offset is not None:
            yield Sent(partition=partition, first=send.offset, last=send.offset, **_times(send))
    for acquire in timeline.all(Acquire):
        for key, offset, count in acquire.records if acquire.group == group else ():
            at, partition = partition_of(key)
            if at == topic:
                yield Delivery(
                    partition=partition,
                    session=acquire.process,
                    first=offset,
                    last=offset,
                    count=count,
                    lease=None,
                    leader_epoch=None,
                    **_times(acquire),
                )
    for ending in timeline.all(Acknowledge):
        at, partition = partition_of(ending.key)
        for offset in ending.offsets if (ending.group, at) == (group, topic) else ():
            yield Acknowledged(
                partition=partition,
                session=ending.process,
                first=offset,
                last=offset,
                kind=ending.acknowledge_type,
                outcome=ending.outcome,
                lease=None,
                leader_epoch=None,
                **_times(ending),
            )


def _times(operation: Operation) -> dict[str, float]:
    return {"invoked": operation.invoked / SECOND, "completed": operation.completed / SECOND}
