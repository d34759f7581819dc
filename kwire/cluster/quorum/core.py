"""State of a replica of the metadata log, which only Core.transition and the methods beside it change.

Assertions here exclude a lower epoch, and a second leader or a second vote in an epoch. They exclude as well a lower
high watermark, a truncation below it, and a voter set that changes by more than one voter.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from kwire.cluster.channel import Destination
from kwire.cluster.quorum.config import EPOCH_MAX, EPOCHS_MISSED_MAX, QuorumConfig
from kwire.cluster.quorum.connections import Connections
from kwire.cluster.quorum.log_view import LogView, OffsetAndEpoch, end_of
from kwire.cluster.quorum.ready import Answer, Leadership, LogRead, Ready, Send, SnapshotRead
from kwire.cluster.quorum.roles import Follower, Leader, Prospective, Role, Unattached
from kwire.cluster.quorum.state import NO_NODE, QuorumState
from kwire.cluster.quorum.voter_history import VoterHistory
from kwire.cluster.quorum.voters import Endpoints, ReplicaKey, VoterSet, endpoint_of
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import RandomSource

logger = logging.getLogger(__name__)


class Incoming(NamedTuple):
    """Received request; its version and listener decide what the response may contain."""

    token: Any
    message: Any
    version: int
    listener: str


class Reply(NamedTuple):
    """Received response, with its request and its sender."""

    source: Destination
    request: Any
    response: Any


@dataclass(slots=True, kw_only=True)
class ParkedFetch:
    """Delayed fetch: it waits for records or a higher high watermark."""

    incoming: Incoming
    request: FetchRequest
    deadline_ms: float


class Core:
    """Owner of epoch, vote, role and high watermark; handlers change them through transition and the methods below."""

    def __init__(
        self,
        *,
        config: QuorumConfig,
        state: QuorumState,
        log: LogView,
        history: VoterHistory,
        random_source: RandomSource,
    ) -> None:
        self.config = config
        self.log = log
        self.history = history
        self.random_source = random_source
        self.state = state
        """Contents of the quorum-state file after the pending `ready` is carried out."""
        self.role: Role = Unattached(election_deadline_ms=math.inf)
        self.high_watermark = -1
        """End offset of the records known to be committed; -1 until any are. It never decreases."""
        self.connections = Connections(
            request_timeout_ms=config.request_timeout_ms, retry_backoff_ms=config.retry_backoff_ms
        )
        self.parked: list[ParkedFetch] = []
        self.ready = Ready()
        """Output of the current step, for the driver."""
        self.taken: Ready | None = None
        """Output that the driver is carrying out."""
        self.now_ms = 0.0
        self.wall_offset_ms = 0.0
        """Offset to add to now_ms for the time since the Unix epoch."""
        self.last_leader_response_ms = -math.inf
        """Time at which a leader last answered this replica, or this replica last led."""
        self.shutdown_deadline_ms: float | None = None
        self._announced: Leadership | None = None

    # --- queries

    @property
    def epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def leader_id(self) -> int:
        return self.state.leader_id

    @property
    def voted(self) -> ReplicaKey | None:
        if self.state.voted_id == NO_NODE:
            return None
        return ReplicaKey(self.state.voted_id, self.state.voted_directory_id)

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.config.key)

    @property
    def can_be_candidate(self) -> bool:
        """True if this replica may be elected: it is a voter, or its removal may not be committed yet.

        Without the second case a quorum can stop forever. A leader that removed itself and crashed has a longer log
        than the voters that lack the removal, and so rejects their vote requests (Raft's thesis, 4.2.2; Kafka stops
        there).
        """
        if self.epoch >= EPOCH_MAX - 1:
            return False
        if self.is_voter:
            return True
        written_at = self.history.voters_offset
        is_committed = written_at < max(self.high_watermark, self.log.start_offset)
        return not is_committed and self.history.voters_at(written_at).is_voter(self.config.key)

    def is_plausible_epoch(self, epoch: int) -> bool:
        """Return True if the epoch of a message is plausible: any client can send one, and epochs never decrease."""
        return epoch <= self.epoch + 1 or epoch <= min(self.epoch + EPOCHS_MISSED_MAX, EPOCH_MAX - EPOCHS_MISSED_MAX)

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_deadline_ms is not None

    @property
    def has_remote_leader(self) -> bool:
        return self.leader_id not in (NO_NODE, self.config.node_id)

    @property
    def end(self) -> OffsetAndEpoch:
        return end_of(self.log)

    @property
    def is_log_durable(self) -> bool:
        """True if the log is durable and no change of it is pending: only then may a follower fetch."""
        for ready in (self.ready, self.taken):
            if ready is not None and (
                ready.truncate_to is not None
                or ready.append_records is not None
                or ready.append_control
                or ready.snapshot_chunk is not None
            ):
                return False
        return self.log.flushed_end_offset >= self.log.end_offset

    @property
    def leader_endpoints(self) -> Endpoints:
        if isinstance(self.role, (Follower, Prospective)):
            return self.role.leader_endpoints
        return self.config.endpoints if self.leader_id == self.config.node_id else ()

    def random_election_timeout_ms(self) -> float:
        """Return a random time of one to two election timeouts, so that voters do not all become candidates at once."""
        timeout = self.config.election_timeout_ms
        return self.random_source.uniform(timeout, 2 * timeout)

    # --- changes

    def transition(self, role: Role, state: QuorumState) -> None:
        """Change the role. A changed quorum state is stored durably before any other output of this step."""
        self._check_transition(state)
        if state != self.state:
            self.state = self.ready.store = state
        if isinstance(self.role, Leader):
            self.last_leader_response_ms = self.now_ms
        self.role = role

    def _check_transition(self, new: QuorumState) -> None:
        old = self.state
        assert new.leader_epoch >= old.leader_epoch, f"epoch goes back from {old.leader_epoch} to {new.leader_epoch}"
        if new.leader_epoch > old.leader_epoch:
            return
        assert old.leader_id in (NO_NODE, new.leader_id), f"two leaders in epoch {old.leader_epoch}: {old}, {new}"
        if old.voted_id != NO_NODE:
            before = (old.voted_id, old.voted_directory_id)
            assert before == (new.voted_id, new.voted_directory_id), f"two votes in epoch {old.leader_epoch}"

    def state_with(self, *, epoch: int, leader_id: int = NO_NODE, voted: ReplicaKey | None = None) -> QuorumState:
        """Return a quorum state with these values; within the current epoch the vote is kept."""
        if voted is None and epoch == self.epoch:
            voted = self.voted
        return QuorumState(
            leader_id=leader_id,
            leader_epoch=epoch,
            voted_id=voted.node_id if voted is not None else NO_NODE,
            voted_directory_id=voted.directory_id if voted is not None else ZERO_UUID,
        )

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark; return True if it has changed."""
        if offset <= self.high_watermark:
            return False
        assert offset <= self.log.end_offset, "committed records are in the log"
        self.high_watermark = self.ready.high_watermark = offset
        return True

    def truncate(self, offset: int) -> None:
        """Truncate the log, never below the high watermark."""
        assert offset >= self.high_watermark, f"truncation to {offset}, below the high watermark {self.high_watermark}"
        if offset < self.log.end_offset:
            self.ready.truncate_to = offset

    def notify_leadership(self) -> None:
        """Notify the driver of the current leader, if it has changed."""
        role = self.role
        now = Leadership(self.epoch, self.leader_id, isinstance(role, Leader) and role.has_high_watermark)
        if now != self._announced:
            self._announced = self.ready.leadership = now

    # --- output

    def answer(self, incoming: Incoming, response: Any, read: LogRead | SnapshotRead | None = None) -> None:
        self.ready.answers.append(Answer(token=incoming.token, response=response, read=read))

    def send(self, destination: Destination, request: Any) -> float:
        """Send a request if no other is in flight to that node; return when to check again."""
        ready_at = self.connections.ready_at_ms(destination.node_id)
        if ready_at > self.now_ms:
            return ready_at
        correlation_id = self.connections.sent(destination, request, self.now_ms)
        self.ready.sends.append(Send(correlation_id=correlation_id, destination=destination, request=request))
        return self.connections.ready_at_ms(destination.node_id)

    def destination(self, node_id: int, endpoints: Endpoints | None = None) -> Destination | None:
        """Return the address of a node at the replicas' listener; None if it is not known."""
        found = endpoint_of(self.voters.endpoints(node_id) if endpoints is None else endpoints, self.config.listener)
        return Destination(node_id, found.host, found.port) if found is not None else None
