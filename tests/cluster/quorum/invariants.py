"""Invariants Q1 to Q10: they must hold after every event in any world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kwire.cluster.quorum.config import CHECK_QUORUM_FACTOR
from kwire.cluster.quorum.ready import Answer, Send
from kwire.cluster.quorum.roles import Leader
from kwire.cluster.quorum.state import NO_NODE, QuorumState
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.vote import VoteResponse
from tests.cluster.quorum.memory_log import Batch

if TYPE_CHECKING:
    from tests.cluster.quorum.world import Node, World


class Invariants:
    """Checker of the invariants; the driver reports all its actions to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int, int], tuple[int, UUID]] = {}
        self.log: dict[int, Batch] = {}
        """Committed batches of all nodes, by base offset."""
        self.end = 0
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._compared: dict[tuple[int, int], int] = {}
        self.checked = 0

    # --- after every event

    def check(self) -> None:
        self.checked += 1
        for node in self._world.nodes.values():
            if node.quorum is not None and isinstance(node.quorum.role, Leader):
                self._check_leader(node, node.quorum.role)
            self._check_start(node)

    def _check_leader(self, node: Node, role: Leader) -> None:
        epoch = node.running.epoch
        assert self.leaders.setdefault(epoch, node.node_id) == node.node_id, f"Q1: two leaders of epoch {epoch}"
        if node.running.history.voters.ids != {node.node_id}:
            assert role.check_quorum_deadline_ms + 0.1 >= self._world.now_ms, "Q9: leads without a majority"
            furthest = self._world.now_ms + CHECK_QUORUM_FACTOR * node.config.fetch_timeout_ms
            assert role.check_quorum_deadline_ms <= furthest + 0.1, "Q9"
        history = node.running.history
        if role.has_high_watermark:
            committed = history.voters_at(node.running.high_watermark)
            assert committed.overlaps_majority(history.voters), "Q8: voters change one at a time"

    def _check_start(self, node: Node) -> None:
        if node.log.start_offset > 0:
            earliest = node.log.earliest_snapshot_id
            assert earliest is not None, "Q10: the log begins after a snapshot"
            assert earliest.offset == node.log.start_offset, "Q10: the snapshot is where the log begins"

    # --- actions of the driver

    def storing(self, node: Node, new: QuorumState) -> None:
        old = node.stored
        assert new.leader_epoch >= old.leader_epoch, "Q2: an epoch goes back"
        if new.leader_epoch == old.leader_epoch:
            assert old.leader_id in (NO_NODE, new.leader_id), "Q2: another leader in the same epoch"
            assert old.voted_id in (NO_NODE, new.voted_id), "Q2: another vote in the same epoch"

    def sending(self, node: Node, send: Send) -> None:
        assert node.stored.leader_epoch == node.running.epoch, "Q2: an epoch is durable before anybody hears of it"
        if isinstance(send.request, FetchRequest):
            asked = send.request.topics[0].partitions[0]
            assert asked.fetch_offset <= node.log.flushed_end_offset, "Q2: a fetch confirms what is durable"

    def answering(self, node: Node, answer: Answer) -> None:
        assert node.stored.leader_epoch == node.running.epoch, "Q2: an epoch is durable before anybody hears of it"
        response: Any = answer.response
        if isinstance(response, VoteResponse) and response.topics and response.topics[0].partitions[0].vote_granted:
            self._granted(node, response)

    def _granted(self, node: Node, response: VoteResponse) -> None:
        epoch = response.topics[0].partitions[0].leader_epoch
        stored = node.stored
        if stored.voted_id == NO_NODE:
            return  # a pre-vote
        vote = (stored.voted_id, stored.voted_directory_id)
        key = (node.node_id, node.disk, epoch)
        assert self.votes.setdefault(key, vote) == vote, "Q7: one vote an epoch"

    def truncated(self, node: Node, gone: list[Batch]) -> None:
        for batch in gone:
            assert self.log.get(batch.base) != batch, f"Q6: node {node.node_id} cuts off what is committed"

    def installed(self, node: Node) -> None:
        self._compare(node, node.log.start_offset)
        assert not node.running.is_leader, "Q10: a leader loads no snapshot"

    def committed(self, node: Node, high_watermark: int) -> None:
        key = (node.node_id, node.life)
        assert high_watermark >= self._high_watermarks.get(key, 0), "a high watermark goes back"
        self._high_watermarks[key] = high_watermark
        if node.running.is_leader:
            self._check_majority(node, high_watermark)
        self._compare(node, high_watermark, self._compared.get(key, 0))
        self._compared[key] = high_watermark

    def _compare(self, node: Node, end: int, begin: int = 0) -> None:
        """Check that committed batches are equal on all nodes; `begin` is the end of what was compared before."""
        batches = node.log.now.batches if node.log.start_offset <= begin else node.log.all_batches()
        for batch in batches:
            if begin < batch.end <= end:
                known = self.log.setdefault(batch.base, batch)
                assert known == batch, f"Q3: node {node.node_id} has another record committed at {batch.base}"
                self.end = max(self.end, batch.end)

    def _check_majority(self, node: Node, high_watermark: int) -> None:
        last = [batch for batch in node.log.all_batches() if batch.end <= high_watermark][-1]
        assert last.epoch == node.running.epoch, "Q4: an entry of this epoch is committed first"
        voters = node.running.history.voters
        holders = 0
        for key in voters.keys:
            other = self._world.nodes.get(key.node_id)
            if other is not None and voters.is_voter(other.config.key):
                durable = (*other.log.snapshot_batches(), *other.log.durable.batches)
                holders += last in durable
        assert holders >= voters.majority, f"Q4: {high_watermark} is durable on {holders} voters only"

    def elected(self, node: Node) -> None:
        """Q5: check that a new leader has all committed batches."""
        mine = {batch.base: batch for batch in node.log.all_batches()}
        for base, batch in self.log.items():
            assert mine.get(base) == batch, f"Q5: leader {node.node_id} lacks what is committed at {base}"
