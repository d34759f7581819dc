"""Responses of a leader to its followers, and the progress that it learns from their fetches (KIP-595, KIP-630)."""

from __future__ import annotations

from kwire.cluster.quorum import answers
from kwire.cluster.quorum.config import CHECK_QUORUM_FACTOR, PARKED_MAX
from kwire.cluster.quorum.core import Core, Incoming, ParkedFetch
from kwire.cluster.quorum.log_view import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch, Position, check_position
from kwire.cluster.quorum.ready import LogRead, SnapshotRead
from kwire.cluster.quorum.roles import Leader
from kwire.cluster.quorum.voters import ReplicaKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchEpochEndOffset, FetchPartition, FetchRequest, FetchSnapshotId
from kwire.protocol.messages.fetch_snapshot import FetchSnapshotRequest


def leader_rejection(core: Core, epoch: int) -> ErrorCode:
    """Return the error if this replica cannot answer as the leader of that epoch; NONE if it can."""
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > core.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(core.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if core.is_shutting_down else ErrorCode.NONE


# --- Fetch


def handle_fetch(core: Core, incoming: Incoming) -> None:
    request: FetchRequest = incoming.message
    requested = request.topics[0].partitions[0]
    if (
        request.max_wait_ms < 0
        or requested.fetch_offset < 0
        or requested.last_fetched_epoch < 0
        or requested.last_fetched_epoch > requested.current_leader_epoch
    ):
        core.answer(incoming, answers.fetch(core, incoming, ErrorCode.INVALID_REQUEST))
        return
    error = leader_rejection(core, requested.current_leader_epoch)
    replica_id = replica_id_of(request)
    if not error and replica_id == core.config.node_id:
        error = ErrorCode.INVALID_REQUEST  # another process uses this node's id
    if error:
        core.answer(incoming, answers.fetch(core, incoming, error))
        return
    _serve(core, incoming, request, requested, ReplicaKey(replica_id, requested.replica_directory_id))


def replica_id_of(request: FetchRequest) -> int:
    """Return the replica id, which is in another field since version 15."""
    return request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id


def _serve(core: Core, incoming: Incoming, request: FetchRequest, requested: FetchPartition, key: ReplicaKey) -> None:
    leader = core.role
    assert isinstance(leader, Leader)
    position = check_position(core.log, requested.fetch_offset, requested.last_fetched_epoch)
    if position.kind is Position.DIVERGING:
        diverging = FetchEpochEndOffset(epoch=position.at.epoch, end_offset=position.at.offset)
        core.answer(incoming, answers.fetch(core, incoming, ErrorCode.NONE, diverging_epoch=diverging))
        return
    if position.kind is Position.SNAPSHOT:
        snapshot_id = FetchSnapshotId(end_offset=position.at.offset, epoch=position.at.epoch)
        core.answer(incoming, answers.fetch(core, incoming, ErrorCode.NONE, snapshot_id=snapshot_id))
        return
    if key.node_id >= 0:
        leader.progress.limit_observers(core.now_ms)
        replica = leader.progress.replica(key)
        replica.fetched(requested.fetch_offset, core.log.end_offset, core.now_ms)
        record_fetch(core, leader, key)
        advance(core, leader)
    if request.max_wait_ms == 0 or has_news(core, requested) or len(core.parked) >= PARKED_MAX:
        answer_with_records(core, incoming, requested)
    else:
        core.parked.append(
            ParkedFetch(incoming=incoming, request=request, deadline_ms=core.now_ms + request.max_wait_ms)
        )


def has_news(core: Core, requested: FetchPartition) -> bool:
    """Return True if there are records, or the requester's high watermark is too low (KIP-1166)."""
    if requested.fetch_offset < core.log.end_offset:
        return True
    leader = core.role
    known = isinstance(leader, Leader) and leader.has_high_watermark
    return known and requested.high_watermark < core.high_watermark


def answer_with_records(core: Core, incoming: Incoming, requested: FetchPartition) -> None:
    response = answers.fetch(core, incoming, ErrorCode.NONE)
    request: FetchRequest = incoming.message
    bytes_max = (
        min(requested.partition_max_bytes, request.max_bytes)
        if request.max_bytes > 0
        else requested.partition_max_bytes
    )
    read = None
    if requested.fetch_offset < core.log.end_offset:
        read = LogRead(offset=requested.fetch_offset, max_bytes=bytes_max)
    core.answer(incoming, response, read)


def answer_parked(core: Core) -> float:
    """Answer delayed fetches with news or a passed deadline; return the next deadline."""
    waiting: list[ParkedFetch] = []
    for fetch in core.parked:
        requested = fetch.request.topics[0].partitions[0]
        if core.now_ms >= fetch.deadline_ms or has_news(core, requested):
            answer_with_records(core, fetch.incoming, requested)
        else:
            waiting.append(fetch)
    core.parked = waiting
    return min((fetch.deadline_ms for fetch in waiting), default=float("inf"))


def record_fetch(core: Core, leader: Leader, key: ReplicaKey) -> None:
    """Record a request of a replica in this epoch; restart the check-quorum timer if a majority has sent one."""
    if leader.progress.record_fetch(key):
        leader.check_quorum_deadline_ms = core.now_ms + CHECK_QUORUM_FACTOR * core.config.fetch_timeout_ms


def advance(core: Core, leader: Leader) -> None:
    """Advance the high watermark to what a majority has durably, once that is past this epoch's first record (Q4)."""
    offset = min(leader.progress.majority_end(), core.log.end_offset)
    if offset > leader.epoch_start_offset:
        leader.has_high_watermark = True
        # After a change of voters the result may be lower: committed records stay committed.
        core.advance_high_watermark(offset)


# --- FetchSnapshot


def handle_fetch_snapshot(core: Core, incoming: Incoming) -> None:
    request: FetchSnapshotRequest = incoming.message
    topic = request.topics[0]
    requested = topic.partitions[0]
    requested_id = OffsetAndEpoch(requested.snapshot_id.end_offset, requested.snapshot_id.epoch)
    error, size = ErrorCode.NONE, 0
    if (topic.name, requested.partition) != (answers.TOPIC, answers.PARTITION):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        error = leader_rejection(core, requested.current_leader_epoch)
    if not error:
        found = core.log.snapshot_size(requested_id)
        # The formatted snapshot is not replicated: the first leader wrote its contents into the log.
        if found is None or requested_id == BOOTSTRAP_SNAPSHOT:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= requested.position < found:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            size = found
    read = None
    if not error:
        assert isinstance(core.role, Leader)
        record_fetch(core, core.role, ReplicaKey(request.replica_id, requested.replica_directory_id))
        bytes_max = request.max_bytes if request.max_bytes > 0 else core.config.fetch_snapshot_max_bytes
        bytes_max = min(bytes_max, size - requested.position)
        read = SnapshotRead(snapshot_id=requested_id, position=requested.position, max_bytes=bytes_max)
    response = answers.fetch_snapshot(
        core,
        incoming,
        error,
        snapshot_id=requested_id,
        size=size,
        position=requested.position,
        topic=(topic.name, requested.partition),
    )
    core.answer(incoming, response, read)
