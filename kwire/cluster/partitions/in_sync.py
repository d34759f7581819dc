"""In-sync replicas of a partition, kept by its leader in one leader epoch (KIP-497, KIP-903, KIP-966).

The metadata contain the in-sync set. The leader proposes changes to the controller, one at a time:

    image.isr  --shrink/expand-->  proposal  --(the metadata have a newer partition epoch)-->  image.isr
                                      +---(rejected for now)------------------------------->  image.isr, no proposal

Until the outcome is known both sets count: a committed record is on every replica of the maximal set, the union of
both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from kwire.cluster.directory_ids import LOST
from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.follower import NEVER_MS, UNKNOWN_EPOCH, UNKNOWN_OFFSET, Follower

UNCOMMITTED_APPENDS_MAX = 64
"""Maximum uncommitted appends that are counted one by one; later ones are counted as one."""


class Peers(Protocol):
    """A leader's view of the other brokers, and the receiver of its proposals."""

    @property
    def broker_id(self) -> int:
        """Id of this broker."""

    def broker_epoch(self) -> int:
        """Return the broker epoch of this process."""

    def now_ms(self) -> float:
        """Return the time of the monotonic clock."""

    def lag_max_ms(self) -> float:
        """Return replica.lag.time.max.ms."""

    def can_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """Return True if the metadata have the broker with this epoch, unfenced and not in controlled shutdown."""

    def is_unfenced(self, broker_id: int) -> bool:
        """Return True if the metadata have the broker as unfenced, even if it is in controlled shutdown."""

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        """Return True if the metadata have a newer epoch of the broker: that process was restarted."""

    def send_proposal(self, partition: Any) -> None:
        """Send the proposal of a partition (kwire.cluster.partitions.partition) to the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """In-sync set that the leader proposes, and the state of the partition that it is based on."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Broker epochs of the members, -1 if unknown."""
    leader_epoch: int
    partition_epoch: int


class Followers:
    """Owner of the followers' states and the proposal of one leader epoch."""

    def __init__(self, image: PartitionImage, peers: Peers, *, epoch_start: int) -> None:
        self._peers = peers
        self.epoch_start = epoch_start
        """Log end offset when this broker began to lead."""
        self._image = image
        self.proposal: Proposal | None = None
        self._uncommitted: deque[tuple[int, int]] = deque()
        """Appends that not all in-sync replicas have yet, as (end offset, bytes)."""
        now_ms = peers.now_ms()
        self._followers = {
            broker: Follower(caught_up_ms=now_ms if broker in image.isr else NEVER_MS) for broker in self._others()
        }
        self._note_maximal()

    def update(self, image: PartitionImage) -> None:
        """Apply newer metadata of the same leader epoch. A new partition epoch ends the proposal."""
        before, self._image = self._image, image
        if image.partition_epoch != before.partition_epoch:
            self.proposal = None
        self._followers = {broker: self._followers.get(broker) or Follower() for broker in self._others()}
        self._note_maximal()

    def _others(self) -> list[int]:
        return [broker for broker in self._image.replicas if broker != self._peers.broker_id]

    def _note_maximal(self) -> None:
        """Update the maximal in-sync set, and the replicas in lost directories."""
        proposed = () if self.proposal is None else self.proposal.isr
        self._maximal = frozenset(self._image.isr).union(proposed)
        self._lost = frozenset(
            broker
            for broker, directory in zip(self._image.replicas, self._image.directories, strict=False)
            if directory == LOST
        )

    # --- what followers have

    def is_follower(self, broker_id: int) -> bool:
        """Return True if a broker is another replica of the partition."""
        return broker_id in self._followers

    def follower(self, broker_id: int) -> Follower:
        return self._followers[broker_id]

    def appended(self, end: int, size: int) -> None:
        """Record an append by the leader, with its end offset and size in bytes."""
        if len(self._uncommitted) == UNCOMMITTED_APPENDS_MAX:
            size += self._uncommitted.pop()[1]
        self._uncommitted.append((end, size))

    def take_committed_bytes(self, end: int) -> int:
        """Remove the appends committed up to `end`, and return their size in bytes, or 1 if it is unknown."""
        size = 0
        while self._uncommitted and self._uncommitted[0][0] <= end:
            size += self._uncommitted.popleft()[1]
        return max(size, 1)

    def committed_end(self, end: int) -> int:
        """Return the offset, at most `end`, that all replicas of the maximal set have reached; -1 while it is unknown.

        Followers that are about to join count as well. Otherwise the committed offset could advance ahead of them each
        time, and they could never join.
        """
        committed = end
        for broker_id, follower in self._followers.items():
            if follower.log_end_offset < committed and (
                broker_id in self._maximal or self._is_about_to_join(broker_id, follower, end)
            ):
                committed = follower.log_end_offset
        return committed

    def _is_about_to_join(self, broker_id: int, follower: Follower, end: int) -> bool:
        peers = self._peers
        if follower.log_end_offset == UNKNOWN_OFFSET or follower.caught_up_ms == NEVER_MS or broker_id in self._lost:
            return False
        return follower.is_caught_up(
            leader_end=end, now_ms=peers.now_ms(), lag_max_ms=peers.lag_max_ms()
        ) and peers.can_join_isr(broker_id, follower.broker_epoch)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of the leader and the live followers."""
        starts = [
            follower.log_start_offset for broker, follower in self._followers.items() if self._peers.is_unfenced(broker)
        ]
        return min([log_start_offset, *starts])

    # --- changes

    def propose_expand(self, broker_id: int, high_watermark: int) -> bool:
        """Propose to add a follower with all committed records and all records of earlier epochs; True if proposed."""
        if self.proposal is not None or broker_id in self._image.isr or broker_id in self._lost:
            return False  # a replica in a lost directory could not lead
        follower = self._followers[broker_id]
        if follower.log_end_offset < max(high_watermark, self.epoch_start):
            return False
        if not self._peers.can_join_isr(broker_id, follower.broker_epoch):
            return False
        self._propose((*self._image.isr, broker_id))
        return True

    def propose_shrink(self, leader_end: int) -> bool:
        """Propose an in-sync set without the replicas that lag for too long; return True if proposed."""
        if self.proposal is not None:
            return False
        peers = self._peers
        now_ms, lag_max_ms = peers.now_ms(), peers.lag_max_ms()
        staying = tuple(
            broker
            for broker in self._image.isr
            if broker not in self._followers
            or self._followers[broker].is_caught_up(leader_end=leader_end, now_ms=now_ms, lag_max_ms=lag_max_ms)
        )
        if staying == self._image.isr:
            return False
        self._propose(staying)
        return True

    def rejected(self, proposal: Proposal) -> None:
        """Drop a proposal that the controller rejected while the partition is unchanged."""
        if self.proposal is proposal:
            self.proposal = None
            self._note_maximal()

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.proposal = Proposal(
            isr=isr,
            broker_epochs=tuple(map(self._epoch_of, isr)),
            leader_epoch=self._image.leader_epoch,
            partition_epoch=self._image.partition_epoch,
        )
        self._note_maximal()

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self._peers.broker_id:
            return self._peers.broker_epoch()
        follower = self._followers.get(broker_id)
        return UNKNOWN_EPOCH if follower is None else follower.broker_epoch
