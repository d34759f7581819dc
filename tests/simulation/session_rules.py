"""Rule of incremental fetch sessions at any moment: a partition that is not checked has no change to return.

A fetch checks only changed partitions of its session. If a change is not notified, the response is late until the next
change, which clients cannot distinguish from a slow broker.
"""

from __future__ import annotations

from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kwire.server.fetching.fetch_session import FetchSession
from kwire.server.fetching.session_watch import Key
from kwire.server.requests.services import Services
from kwire.simulation import SimulatedCluster


class SessionRules:
    """Checks of the fetch sessions on all serving brokers."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._brokers = cluster.brokers
        self.settled = 0
        """Number of session partitions that were checked and have no change to return."""

    def look(self) -> None:
        """Check all sessions. Raises AssertionError for a partition with a change that is not marked for a check."""
        for broker in self._brokers:
            if broker.is_serving and not broker.server.failed.done():
                services = broker.server.services
                for session in services.fetch_sessions._cache._sessions.values():
                    self._watch_partition(services, session)

    def _watch_partition(self, services: Services, session: FetchSession) -> None:
        for key, known in session.partitions.items():
            if key in session.unread:
                continue
            partition = _find(services, key)
            assert partition is not None, f"a fetch session does not look at {key}, which is gone"
            assert known.watch is not None, f"nobody tells a fetch session of {partition.log!r}"
            assert known.watch.partition is partition, f"a fetch session is told of an earlier {partition.log!r}"
            told = known.high_watermark, known.log_start_offset, known.request.fetch_offset
            there = partition.high_watermark, partition.log.log_start_offset, _end(partition, session)
            assert told[:2] == there[:2], f"a fetch session told {told}, and does not look at {there}"
            assert told[2] >= there[2], f"a fetch session told {told}, and does not look at {there}"
            if session.follower is not None:
                assert session.follower[0] in partition.image.isr, f"{partition.log!r}: nobody looks who may join"
            self.settled += 1


def _find(services: Services, key: Key) -> Partition | None:
    topic, index = key
    name = topic if isinstance(topic, str) else services.image.topic_names.get(topic)
    return None if name is None else services.partitions.get(name, index)


def _end(partition: Partition, session: FetchSession) -> int:
    if session.is_follower:
        return partition.log.log_end_offset
    return partition.end_offset(READ_COMMITTED if session.is_committed else READ_UNCOMMITTED)
