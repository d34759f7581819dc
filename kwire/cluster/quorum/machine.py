"""Interface of the quorum for its driver: inputs, their output (Ready), and done(); README.md has the contract.

Pure: it has no clock, no I/O and no randomness of its own. Inputs that arrive while a Ready is carried out are queued
until done(), so that each of them sees the log after the previous one.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from kwire.cluster.channel import Destination
from kwire.cluster.quorum import (
    answers,
    epochs,
    following,
    leading,
    polling,
    transitions,
    version_upgrade,
    voter_changes,
    voting,
)
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.core import Core, Incoming, Reply
from kwire.cluster.quorum.describing import handle_describe_quorum
from kwire.cluster.quorum.log_view import LogView
from kwire.cluster.quorum.ready import Ready
from kwire.cluster.quorum.roles import Candidate, Follower, Leader, Resigned, Role
from kwire.cluster.quorum.state import NO_NODE, QuorumState
from kwire.cluster.quorum.voter_history import QuorumRecord, VoterHistory, quorum_records
from kwire.cluster.quorum.voters import ReplicaKey, VoterSet
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kwire.protocol.messages.describe_quorum import DescribeQuorumRequest
from kwire.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kwire.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kwire.protocol.messages.vote import VoteRequest, VoteResponse
from kwire.protocol.primitives import Buffer
from kwire.seams import RandomSource

logger = logging.getLogger(__name__)

REQUESTS: dict[type, tuple[type, Callable[[Core, Incoming], None]]] = {
    VoteRequest: (VoteResponse, voting.handle_vote),
    BeginQuorumEpochRequest: (BeginQuorumEpochResponse, epochs.handle_begin_quorum_epoch),
    EndQuorumEpochRequest: (EndQuorumEpochResponse, epochs.handle_end_quorum_epoch),
    FetchRequest: (FetchResponse, leading.handle_fetch),
    FetchSnapshotRequest: (FetchSnapshotResponse, leading.handle_fetch_snapshot),
    AddRaftVoterRequest: (AddRaftVoterResponse, voter_changes.handle_add_voter),
    RemoveRaftVoterRequest: (RemoveRaftVoterResponse, voter_changes.handle_remove_voter),
    UpdateRaftVoterRequest: (UpdateRaftVoterResponse, voter_changes.handle_update_voter),
}
RESPONSES: dict[type, Callable[[Core, Reply], bool]] = {
    VoteRequest: voting.handle_vote_response,
    BeginQuorumEpochRequest: epochs.handle_begin_quorum_epoch_response,
    EndQuorumEpochRequest: epochs.handle_end_quorum_epoch_response,
    FetchRequest: following.handle_fetch_response,
    FetchSnapshotRequest: following.handle_fetch_snapshot_response,
    AddRaftVoterRequest: polling.handle_change_response,
    RemoveRaftVoterRequest: polling.handle_change_response,
    UpdateRaftVoterRequest: polling.handle_update_voter_response,
    ApiVersionsRequest: voter_changes.handle_api_versions_response,
}
NAMED_PARTITION = (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest)


class Quorum:
    """Replica of the metadata log: voter or observer."""

    def __init__(
        self,
        *,
        config: QuorumConfig,
        state: QuorumState,
        log: LogView,
        random_source: RandomSource,
        static_voters: VoterSet | None = None,
        records: Iterable[tuple[int, QuorumRecord]] = (),
    ) -> None:
        """Create the replica from its stored state. `state` is the content of the quorum-state file. `records` are the
        KRaftVersion and KRaftVoters records with their offsets, of the snapshot (at its last offset) and of the log.
        """
        history = VoterHistory(static_voters)
        for offset, record in records:
            history.add(offset, record)
        self._core = Core(config=config, state=state, log=log, history=history, random_source=random_source)
        self._inputs: deque[Callable[[], None]] = deque()
        self._end_at_take = log.end_offset
        self.next_deadline_ms = -math.inf
        """Latest time for the next tick(), on the clock of now_ms."""
        self.has_seen_other_cluster = False
        """True if a node has answered that it belongs to another cluster."""
        self.is_denied = False
        """True if a node has answered that this node may not send requests of the quorum."""

    # --- queries

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def voted(self) -> ReplicaKey | None:
        """Replica that this replica has voted for in this epoch."""
        return self._core.voted

    @property
    def leader_id(self) -> int:
        return self._core.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._core.role, Leader)

    @property
    def leader(self) -> Destination | None:
        """Address of the leader; None if it is not known, or is this replica."""
        role = self._core.role
        return self._core.destination(self.leader_id, role.leader_endpoints) if isinstance(role, Follower) else None

    @property
    def high_watermark(self) -> int:
        """End offset of the committed records that this replica knows; -1 if unknown."""
        return self._core.high_watermark

    @property
    def leaders_high_watermark(self) -> int:
        """High watermark of the leader of this epoch, as far as it is known here; -1 if unknown."""
        role = self._core.role
        if isinstance(role, Leader):
            return self._core.high_watermark if role.has_high_watermark else -1
        return role.high_watermark if isinstance(role, Follower) else -1

    @property
    def history(self) -> VoterHistory:
        """Voters and kraft.version by offset, for snapshots. The driver calls forget_before() after a snapshot."""
        return self._core.history

    @property
    def is_shut_down(self) -> bool:
        """True if a graceful shutdown has nothing more to wait for."""
        core = self._core
        deadline = core.shutdown_deadline_ms
        if deadline is None:
            return False
        is_alone = not core.is_voter or core.voters.is_only_voter(core.config.key)
        is_leading = isinstance(core.role, Leader)
        is_over = is_alone or core.has_remote_leader or self._is_election_impossible
        return core.now_ms >= deadline or (not is_leading and is_over)

    @property
    def _is_election_impossible(self) -> bool:
        """True if so many voters are unreachable that the others cannot elect a leader, even with this one's vote."""
        role, voters = self._core.role, self._core.voters
        return isinstance(role, Resigned) and len(voters.ids - role.unreachable) < voters.majority

    @property
    def last_leader_response_ms(self) -> float:
        """Time at which a leader last answered this replica; -inf for never. For a leader, its last input."""
        return self._core.now_ms if self.is_leader else self._core.last_leader_response_ms

    @property
    def follows_live_leader(self) -> bool:
        """True if this replica follows a leader that has answered it, and the answered records are stored."""
        role = self._core.role
        is_following = isinstance(role, Follower) and role.has_fetched and role.snapshot is None
        return is_following and self._core.is_log_durable

    @property
    def lacks_committed(self) -> bool:
        """True if the leader that this replica follows has committed records that are not in the log here."""
        role = self._core.role
        return isinstance(role, Follower) and role.high_watermark > self._core.log.end_offset

    def has_possible_successor(self, now_ms: float) -> bool:
        """Return True if this node leads and enough other voters fetch to elect a successor without its vote."""
        core = self._core
        if not isinstance(core.role, Leader):
            return False
        silent = {key.node_id for key in core.role.progress.silent_voters(now_ms - core.config.fetch_timeout_ms)}
        return len(core.voters.ids - silent - {core.config.node_id}) >= core.voters.majority

    def set_wall_offset(self, offset_ms: float) -> None:
        """Set the offset from now_ms to the time since the Unix epoch, for DescribeQuorum."""
        self._core.wall_offset_ms = offset_ms

    # --- inputs

    def start(self, now_ms: float) -> None:
        """Start the replica; the first input."""
        self._input(self._start, now_ms)

    def tick(self, now_ms: float) -> None:
        """Process the passing of time."""
        self._input(lambda: None, now_ms)

    def request(self, token: Any, message: Any, *, version: int, listener: str, now_ms: float) -> None:
        """Process a request of REQUESTS or DescribeQuorum; its Answer has the token."""
        incoming = Incoming(token=token, message=message, version=version, listener=listener)
        self._input(partial(self._request, incoming), now_ms)

    def response(self, correlation_id: int, response: Any, now_ms: float) -> None:
        """Process the response to a Send."""
        self._input(partial(self._response, correlation_id, response), now_ms)

    def unreachable(self, correlation_id: int, now_ms: float) -> None:
        """Process that a Send will have no response."""
        self._input(partial(self._unreachable, correlation_id), now_ms)

    def appended(self, now_ms: float) -> None:
        """Process that the driver, as the leader, has appended records: delayed fetches may be answered."""
        self._input(lambda: None, now_ms)

    def flushed(self, now_ms: float) -> None:
        """Process that log.flushed_end_offset has grown."""
        self._input(lambda: None, now_ms)

    def resign(self, epoch: int, now_ms: float) -> None:
        """Resign as the leader, if this epoch is still the current one."""
        self._input(partial(self._resign, epoch), now_ms)

    def upgrade_kraft_version(self, token: Any, version: int, *, validate_only: bool, now_ms: float) -> None:
        """Raise the level of the feature kraft.version; the Answer with the token has an UpgradeOutcome."""
        self._input(
            lambda: version_upgrade.upgrade_kraft_version(self._core, token, version, validate_only=validate_only),
            now_ms,
        )

    def shut_down(self, now_ms: float, timeout_ms: float) -> None:
        """Shut down gracefully: a leader first lets the other voters elect a new one. See is_shut_down."""
        self._input(partial(self._shut_down, timeout_ms), now_ms)

    # --- outputs

    def take(self) -> Ready | None:
        """Return the next output, or None. Call done() before taking the next one."""
        core = self._core
        if core.taken is not None or core.ready.is_empty:
            return None
        core.taken, core.ready = core.ready, Ready()
        self._end_at_take = core.log.end_offset
        return core.taken

    def done(
        self,
        now_ms: float,
        *,
        control_offsets: Sequence[int] = (),
        snapshot_records: Sequence[QuorumRecord] | None = None,
    ) -> None:
        """Process that the taken output was carried out.

        control_offsets: the base offset of each batch of append_control. snapshot_records: the KRaftVersion and
        KRaftVoters records of a fetched snapshot that has replaced the log. None after the last chunk means that the
        snapshot is invalid; it is fetched again.
        """
        core = self._core
        taken = core.taken
        assert taken is not None, "done() answers take()"
        assert len(control_offsets) == len(taken.append_control), "one offset for each control batch"
        core.taken = None
        for batch, base_offset in zip(taken.append_control, control_offsets, strict=True):
            self._control_written(base_offset, batch.records)
        if taken.append_records is not None:
            self._records_written(taken.append_records)
        if taken.snapshot_chunk is not None and taken.snapshot_chunk.is_last:
            self._snapshot_installed(snapshot_records)
        self._step(lambda: None, now_ms)
        self._run_inputs()

    # --- processing of inputs, one at a time

    def _input(self, step: Callable[[], None], now_ms: float) -> None:
        self._inputs.append(partial(self._step, step, now_ms))
        self._run_inputs()

    def _run_inputs(self) -> None:
        core = self._core
        while self._inputs and core.taken is None and core.ready.is_empty:
            self._inputs.popleft()()

    def _step(self, step: Callable[[], None], now_ms: float) -> None:
        core = self._core
        core.now_ms = max(core.now_ms, now_ms)
        step()
        self.next_deadline_ms = polling.poll(core)
        if core.shutdown_deadline_ms is not None:
            self.next_deadline_ms = min(self.next_deadline_ms, core.shutdown_deadline_ms)

    def _start(self) -> None:
        """Continue from the stored state (KIP-595): resign an epoch that this node led, continue an own candidacy."""
        core, config = self._core, self._core.config
        state = core.state
        if state.leader_epoch < core.log.last_epoch:
            transitions.become_unattached(core, core.log.last_epoch)
        elif state.leader_id == config.node_id:
            transitions.resign_at_start(core)
        elif core.voted == config.key and state.leader_id == NO_NODE and core.is_voter:
            deadline = core.now_ms + core.random_election_timeout_ms()
            core.role = Candidate(election_deadline_ms=deadline, ballot=transitions.own_ballot(core))
        elif state.leader_id != NO_NODE and core.voters.endpoints(state.leader_id):
            endpoints = core.voters.endpoints(state.leader_id)
            transitions.become_follower(core, state.leader_epoch, state.leader_id, endpoints)
        # If no leader was ever elected, there is none to wait for or to disturb: a pre-vote changes nothing.
        has_no_past = core.state == QuorumState() and core.can_be_candidate
        if has_no_past or (core.can_be_candidate and core.voters.is_only_voter(config.key)):
            transitions.become_prospective(core)

    def _request(self, incoming: Incoming) -> None:
        core = self._core
        message = incoming.message
        if isinstance(message, DescribeQuorumRequest):
            handle_describe_quorum(core, incoming)
            return
        response, handle = REQUESTS[type(message)]
        if message.cluster_id is not None and message.cluster_id != core.config.cluster_id:
            rejected = response(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
            if isinstance(rejected, (AddRaftVoterResponse, RemoveRaftVoterResponse)):
                rejected.error_message = f"this is cluster {core.config.cluster_id}, not {message.cluster_id}"
            core.answer(incoming, rejected)
        elif not _names_the_partition(message):
            core.answer(incoming, response(error_code=ErrorCode.INVALID_REQUEST))
        else:
            handle(core, incoming)

    def _response(self, correlation_id: int, response: Any) -> None:
        core = self._core
        expected = core.connections.expected(correlation_id)
        if expected is None:
            return
        destination, request = expected
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID and not self.has_seen_other_cluster:
            self.has_seen_other_cluster = True
            logger.warning(
                "%s:%d does not belong to cluster %s", destination.host, destination.port, core.config.cluster_id
            )
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not self.is_denied:
            self.is_denied = True
            logger.warning(
                "%s:%d denies requests of the quorum to this node: allow its principal ClusterAction on the cluster, "
                "or add it to super.users of the controllers",
                destination.host,
                destination.port,
            )
        succeeded = RESPONSES[type(request)](core, Reply(source=destination, request=request, response=response))
        core.connections.finished(correlation_id, succeeded=succeeded, now_ms=core.now_ms)

    def _unreachable(self, correlation_id: int) -> None:
        core = self._core
        expected = core.connections.expected(correlation_id)
        core.connections.finished(correlation_id, succeeded=False, now_ms=core.now_ms)
        if expected is None:
            return
        destination, request = expected
        if isinstance(request, ApiVersionsRequest):
            voter_changes.new_voter_unreachable(core, destination)
        elif isinstance(request, EndQuorumEpochRequest) and isinstance(core.role, Resigned):
            core.role.unreachable.add(destination.node_id)

    def _resign(self, epoch: int) -> None:
        role = self._core.role
        if isinstance(role, Leader) and epoch == self._core.epoch:
            role.is_resigning = True

    def _shut_down(self, timeout_ms: float) -> None:
        core = self._core
        if core.shutdown_deadline_ms is None:
            core.shutdown_deadline_ms = core.now_ms + timeout_ms

    # --- records written

    def _control_written(self, base_offset: int, records: Sequence[tuple[ControlRecordType, Any]]) -> None:
        core = self._core
        for delta, (kind, record) in enumerate(records):
            if kind in (ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS):
                core.history.add(base_offset + delta, record)
                if kind == ControlRecordType.KRAFT_VOTERS:
                    voter_changes.voters_written(core, base_offset + delta)

    def _records_written(self, data: Buffer) -> None:
        core = self._core
        if core.log.end_offset == self._end_at_take:  # nothing was appended; the log has logged the reason
            core.connections.back_off(core.leader_id, core.now_ms)
            if isinstance(core.role, Follower):
                core.role.paused_until_ms = core.now_ms + core.config.retry_backoff_ms
            return
        for offset, record in quorum_records(data, begin=self._end_at_take, end=core.log.end_offset):
            core.history.add(offset, record)

    def _snapshot_installed(self, records: Sequence[QuorumRecord] | None) -> None:
        core = self._core
        assert isinstance(core.role, Follower), "only a follower loads a snapshot"
        core.role.snapshot = None
        if records is None:
            core.connections.back_off(core.leader_id, core.now_ms)
            # Wait, because the next snapshot is likely invalid too, but not until the leader counts as lost.
            core.role.paused_until_ms = core.now_ms + core.config.fetch_timeout_ms / 2
            return
        core.history.restart(core.log.end_offset, records)
        core.advance_high_watermark(core.log.end_offset)


def _names_the_partition(message: Any) -> bool:
    """Return True if a request is for __cluster_metadata-0 only; requests about voters name no partition."""
    if isinstance(message, (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)):
        return True
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return False
    topic = message.topics[0]
    if isinstance(message, NAMED_PARTITION):
        return bool(topic.topic_name == answers.TOPIC and topic.partitions[0].partition_index == answers.PARTITION)
    if isinstance(message, FetchRequest):
        is_topic = bool(topic.topic_id == answers.TOPIC_ID or topic.topic == answers.TOPIC)
        return is_topic and bool(topic.partitions[0].partition == answers.PARTITION)
    return True  # the handler of FetchSnapshot returns UNKNOWN_TOPIC_OR_PARTITION itself
