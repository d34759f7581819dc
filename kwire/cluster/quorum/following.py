"""Replication by a follower of the leader's log: append, truncate, or fetch a snapshot (KIP-595, KIP-630)."""

from __future__ import annotations

import logging

from kwire.cluster.channel import Destination
from kwire.cluster.quorum import answers, requests
from kwire.cluster.quorum.core import Core, Reply
from kwire.cluster.quorum.leaders import Outcome, consider_response, following
from kwire.cluster.quorum.log_view import OffsetAndEpoch, truncation_point
from kwire.cluster.quorum.ready import SnapshotChunk
from kwire.cluster.quorum.roles import Follower, SnapshotFetch
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartitionData, FetchResponse
from kwire.protocol.messages.fetch_snapshot import (
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
)

logger = logging.getLogger(__name__)

FIRST_BOOTSTRAP_ID = -2
"""First id for bootstrap servers, whose node ids are unknown; -1 means no node in every message."""


# --- Fetch


def handle_fetch_response(core: Core, reply: Reply) -> bool:
    response: FetchResponse = reply.response
    if response.error_code or not response.responses or not response.responses[0].partitions:
        return False
    partition = response.responses[0].partitions[0]
    error = ErrorCode(partition.error_code)
    leader = partition.current_leader
    outcome = consider_response(core, error, leader.leader_epoch, leader.leader_id, response.node_endpoints)
    if outcome is not Outcome.CONTINUE:
        return outcome is Outcome.HANDLED
    role = following(core)
    if error or role is None:
        return not error
    requested = reply.request.topics[0].partitions[0]
    if not _is_log_end(core, requested.fetch_offset, requested.last_fetched_epoch):
        return True
    if not _apply_fetched(core, role, partition):
        return False
    role.fetch_deadline_ms = core.now_ms + core.config.fetch_timeout_ms
    role.has_fetched = True
    core.last_leader_response_ms = core.now_ms
    return True


def _is_log_end(core: Core, offset: int, epoch: int) -> bool:
    """Return True if the log still ends where the fetch began."""
    return core.is_log_durable and core.end == OffsetAndEpoch(offset, epoch)


def _apply_fetched(core: Core, role: Follower, partition: FetchPartitionData) -> bool:
    """Apply the leader's response; return False if it is invalid."""
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if diverging.epoch >= 0:
        point = truncation_point(core.log, OffsetAndEpoch(diverging.end_offset, diverging.epoch))
        logger.info("node %d cuts its log back from %d to %d", core.config.node_id, core.log.end_offset, point)
        core.truncate(point)
        core.history.truncate_to(point)
        return True
    if snapshot.epoch >= 0 or snapshot.end_offset >= 0:
        if snapshot.epoch < 0 or snapshot.end_offset < 0:
            logger.error("node %d: the leader sent the invalid snapshot id %s", core.config.node_id, snapshot)
            return False
        snapshot_id = OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
        if snapshot_id.offset < core.log.end_offset and snapshot_id.offset <= core.high_watermark:
            logger.error(
                "node %d: the leader sent snapshot id %s, which this log already covers",
                core.config.node_id,
                snapshot_id,
            )
            return False
        role.snapshot = SnapshotFetch(snapshot_id=snapshot_id)
        return True
    if partition.records:
        core.ready.append_records = partition.records
    role.high_watermark = max(role.high_watermark, partition.high_watermark)
    return True


def follow_high_watermark(core: Core) -> None:
    """Advance the high watermark to the leader's, as far as this log goes."""
    role = following(core)
    if role is not None and core.is_log_durable:
        core.advance_high_watermark(min(role.high_watermark, core.log.end_offset))


# --- FetchSnapshot


def handle_fetch_snapshot_response(core: Core, reply: Reply) -> bool:
    response: FetchSnapshotResponse = reply.response
    if response.error_code or not response.topics or not response.topics[0].partitions:
        return False
    topic = response.topics[0]
    partition = topic.partitions[0]
    if (topic.name, partition.index) != (answers.TOPIC, answers.PARTITION):
        return False
    error = ErrorCode(partition.error_code)
    leader = partition.current_leader
    outcome = consider_response(core, error, leader.leader_epoch, leader.leader_id, response.node_endpoints)
    if outcome is not Outcome.CONTINUE:
        return outcome is Outcome.HANDLED
    role = following(core)
    if role is None or role.snapshot is None:
        return not error
    problem = _problem(role.snapshot, partition)
    if problem:
        # The leader has a newer snapshot by now, or its response is invalid: fetch again from the log end offset.
        logger.warning(
            "node %d stops fetching snapshot %s: %s", core.config.node_id, role.snapshot.snapshot_id, problem
        )
        role.snapshot = None
        return False
    _add(core, role.snapshot, partition)
    role.fetch_deadline_ms = core.now_ms + core.config.fetch_timeout_ms
    role.has_fetched = True
    core.last_leader_response_ms = core.now_ms
    return True


def _problem(fetching: SnapshotFetch, partition: FetchSnapshotResponsePartitionSnapshot) -> str | None:
    """Return the reason why a response is not the next part of a snapshot; None if it is."""
    if partition.error_code:
        return ErrorCode(partition.error_code).name
    named = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    if named != fetching.snapshot_id:
        return f"the response is for snapshot {named}"
    if partition.position != fetching.position:
        return f"the response is for position {partition.position}, not {fetching.position}"
    size = len(partition.unaligned_records)
    if size == 0:
        return "the response is empty"
    if fetching.position + size > partition.size:
        return f"the response exceeds the size of the snapshot, {partition.size}"
    return None


def _add(core: Core, fetching: SnapshotFetch, partition: FetchSnapshotResponsePartitionSnapshot) -> None:
    position = fetching.position
    fetching.position += len(partition.unaligned_records)
    fetching.is_complete = fetching.position == partition.size
    core.ready.snapshot_chunk = SnapshotChunk(
        snapshot_id=fetching.snapshot_id,
        position=position,
        data=partition.unaligned_records,
        is_last=fetching.is_complete,
    )


# --- sending


def bootstrap_servers(core: Core) -> list[Destination]:
    """Return the servers to ask for the leader: the configured ones and the voters, without this node.

    Kafka asks only the configured servers; with the voters, a quorum whose voters have all changed is still found.
    """
    known = {(listener.host, listener.port) for listener in core.config.endpoints}
    found: list[Destination] = []
    for place, (host, port) in enumerate(core.config.bootstrap_servers):
        if (host, port) not in known:
            known.add((host, port))
            found.append(Destination(FIRST_BOOTSTRAP_ID - place, host, port))
    for node_id in sorted(core.voters.ids - {core.config.node_id}):
        voter = core.destination(node_id)
        if voter is not None and (voter.host, voter.port) not in known:
            found.append(voter)
    return found


def fetch_from_any(core: Core) -> float:
    """Fetch from a random server to learn the leader; return when to check again."""
    servers = bootstrap_servers(core)
    if not servers or not core.is_log_durable:
        return float("inf")
    first = int(core.random_source.uniform(0, len(servers))) % len(servers)
    server = core.connections.first_ready(servers[first:] + servers[:first], core.now_ms)
    if server is not None and not core.connections.has_any_in_flight(core.now_ms):
        return core.send(server, requests.fetch(core))
    later = [core.connections.ready_at_ms(it.node_id) for it in servers]
    return min((time for time in later if time > core.now_ms), default=core.now_ms + core.config.retry_backoff_ms)


def fetch_from_leader(core: Core, role: Follower) -> float:
    """Fetch from the leader, or from any server while the leader is unreachable; return when to check again."""
    if core.now_ms < role.paused_until_ms:
        return role.paused_until_ms
    leader = core.destination(core.leader_id, role.leader_endpoints)
    if leader is None:
        return fetch_from_any(core)
    if core.connections.has_timed_out(leader.node_id, core.now_ms):
        core.connections.reset_node(leader.node_id)
        return fetch_from_any(core)
    if core.connections.is_backing_off(leader.node_id, core.now_ms):
        return min(fetch_from_any(core), core.connections.ready_at_ms(leader.node_id))
    # A request to another server may be in flight: of two responses, only one is for the end of the log.
    if core.connections.ready_at_ms(leader.node_id) > core.now_ms:
        return core.connections.ready_at_ms(leader.node_id)
    if not core.is_log_durable:
        return float("inf")
    if role.snapshot is not None:
        if role.snapshot.is_complete:
            return float("inf")
        return core.send(leader, requests.fetch_snapshot(core, role.snapshot))
    return core.send(leader, requests.fetch(core))
