"""Rules of a quorum at any moment (invariants Q1 to Q10), checked from outside, over all nodes and restarts.

After each event, the node of that event is checked; whole logs are checked from time to time. Observed facts are
stored, so that later contradictions are found. Each message begins with the broken invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.voters import ReplicaKey
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.records import iterate_headers
from kwire.server.assembly.controller_server import ControllerServer
from kwire.simulation import Simulation
from kwire.simulation.controllers import SimulatedController

READ_BYTES = 1 << 20
EVENTS_MAX = 2_000_000
"""Many times the number of events that a seed needs."""


class Sight(NamedTuple):
    """State of a node after an event."""

    key: ReplicaKey
    server: ControllerServer
    machine: Quorum
    """Quorum object; each start, and each lack of space, creates a new one."""
    epoch: int
    voted: ReplicaKey | None
    high_watermark: int
    is_leader: bool
    is_active: bool
    end: int
    durable: int
    voters_offset: int


class Rules:
    """Rules of a quorum."""

    def __init__(self, simulation: Simulation, nodes: Sequence[SimulatedController]) -> None:
        self._timeline = simulation.timeline
        self._nodes = nodes
        self._by_host = {node.host: node for node in nodes}
        self.stored: Callable[[SimulatedController], None] = lambda node: None
        """Callback for each node that has stored another epoch, vote or leader."""
        self.acknowledged_to = -1
        """Last offset whose commit was acknowledged to a client; set by clients."""
        self.leaders: dict[int, ReplicaKey] = {}
        """Leaders by epoch (Q1)."""
        self._committed: dict[int, tuple[int, int]] = {}
        """Epoch and CRC of each committed batch, by base offset (Q3)."""
        self._committed_to = 0
        self._epochs: dict[ReplicaKey, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._durable: dict[ReplicaKey, int] = {}
        """Durable log end offset of each replica, when it was last checked."""
        self._seen: dict[SimulatedController, Sight] = {}
        self._compared: dict[ReplicaKey, tuple[ControllerServer, int]] = {}
        """Offset up to which a node's log was compared, in its current process."""

    # --- after each event

    def at_any_moment(self) -> None:
        """Check the node of the last event; cheap, because an event changes only its process."""
        host = getattr(self._timeline.loop, "host", None)
        node = self._by_host.get(host) if host is not None else None
        if node is not None and node.is_serving:
            self._look_at(node)

    def _look_at(self, node: SimulatedController) -> None:
        metadata_log = node.server.metadata_log
        for failed in (node.server.failed, metadata_log.failed):
            if failed.done():
                error = failed.result()
                if not isinstance(error, (DiskFailure, KafkaError, LogDirectoryError)):
                    raise AssertionError(f"Q6: {node.name} found itself broken: {error!r}") from error
        if metadata_log.failed.done():
            self._note_cut(node)
            return  # state that it could not store was never sent
        if metadata_log.node.is_away:
            return  # neither were the requests of a node that waits for space
        quorum, log = metadata_log.node.quorum, metadata_log.node.log
        now = Sight(
            node.key,
            node.server,
            quorum,
            quorum.epoch,
            quorum.voted,
            quorum.high_watermark,
            quorum.is_leader,
            metadata_log.is_active,
            log.end_offset,
            log.flushed_end_offset,
            quorum.history.voters_offset,
        )
        before = self._seen.get(node)
        if now != before:
            self._seen[node] = now
            self._check(node, now, before if before is not None and before.key == now.key else None)
            self._durable[now.key] = now.durable

    def _note_cut(self, node: SimulatedController) -> None:
        """Record that a failed truncation requested by the leader may leave a shorter log."""
        before, log = self._seen.get(node), node.server.metadata_log.node.log
        if before is not None and before.server is node.server:  # already checked after the start
            snapshot_end = log.latest_snapshot_id.offset if log.latest_snapshot_id is not None else 0
            left = max(log.flushed_end_offset, snapshot_end)
            self._durable[before.key] = min(self._durable[before.key], left)

    def _check(self, node: SimulatedController, now: Sight, before: Sight | None) -> None:
        key, epoch = node.key, now.epoch
        assert epoch >= self._epochs.get(key, 0), f"Q2: node {key.node_id} went back in epochs"
        if now.voted is not None or (key, epoch) in self._votes:
            vote = self._votes.setdefault((key, epoch), now.voted or key)
            assert vote == now.voted, f"Q2: node {key.node_id} voted for {vote} in epoch {epoch}, and for {now.voted}"
        if now.is_leader:
            leader = self.leaders.setdefault(epoch, key)
            assert leader == key, f"Q1: epoch {epoch} has two leaders, {leader} and {key}"
        is_same_life = before is not None and before.machine is now.machine
        if before is not None and is_same_life:
            assert now.high_watermark >= before.high_watermark, f"Q3: {node.name}: high watermark went back"
        else:
            kept = self._durable.get(key, 0)
            assert now.end >= kept, f"Q3: {node.name} had {kept} on its disk and comes back with {now.end}"
        led_already = before is not None and is_same_life and before.is_leader and before.epoch == epoch
        if before is not None and led_already and now.is_leader and now.high_watermark > before.high_watermark:
            self._check_commit(node, now)
        if now.is_active:
            self._check_active(node, now, before if is_same_life else None)
        if before is None or before.epoch != epoch or before.voted != now.voted:
            self._epochs[key] = epoch
            self.stored(node)

    def _check_commit(self, node: SimulatedController, now: Sight) -> None:
        """Check a leader's commits: on the disks of a majority of its voters, with a record of its epoch (Q4)."""
        metadata_log = node.server.metadata_log
        begin = metadata_log.node.log.end_offset_for_epoch(now.epoch - 1).offset
        assert now.high_watermark > begin, f"Q4: {node.name} commits {now.high_watermark}, before its epoch's {begin}"
        self._durable[node.key] = now.durable
        voters = metadata_log.node.quorum.history.voters_at(now.end)
        holders = [voter.key.node_id for voter in voters if self._durable.get(voter.key, -1) >= now.high_watermark]
        assert len(holders) >= voters.majority, (
            f"Q4: {node.name} commits {now.high_watermark}, which only {holders} of {sorted(voters.ids)} have on disk"
        )

    def _check_active(self, node: SimulatedController, now: Sight, before: Sight | None) -> None:
        if before is None or not before.is_active:
            assert now.high_watermark > self.acknowledged_to, (
                f"Q5: {node.name} serves, up to {now.high_watermark}; {self.acknowledged_to} was acknowledged"
            )
        history = node.server.metadata_log.node.quorum.history
        if now.high_watermark > now.voters_offset:
            is_voter = history.voters_at(now.end).is_voter(node.key)
            assert is_voter, f"Q8: {node.name} leads although its removal is committed"
        if before is not None and before.is_active and before.voters_offset < now.voters_offset:
            was_committed = max(before.high_watermark, now.high_watermark) > before.voters_offset
            assert was_committed, f"Q8: {node.name} changes voters twice, at {before.voters_offset} uncommitted"
            old, new = history.voters_at(now.voters_offset), history.voters_at(now.end)
            assert old.overlaps_majority(new), f"Q8: voters {old} became {new} in one step"

    # --- from time to time

    def of_whole_logs(self) -> None:
        """Check whole logs (expensive): committed batches are equal everywhere, also in snapshots and images."""
        assert self._timeline.events < EVENTS_MAX, "Q13: the quorum does not come to rest"
        images: dict[int, tuple[str, MetadataImage]] = {}
        for node in self._nodes:
            if not node.is_serving or node.server.metadata_log.failed.done():
                continue
            metadata_log = node.server.metadata_log
            with node.host.device.sound():
                self._compare(node, metadata_log)
                self._check_snapshots(node, metadata_log)
            other, image = images.setdefault(metadata_log.image.offset, (node.name, metadata_log.image))
            assert image == metadata_log.image, f"Q11: {other} and {node.name} have different images at {image.offset}"

    def _compare(self, node: SimulatedController, metadata_log: MetadataLog) -> None:
        log = metadata_log.node.log
        life, offset = self._compared.get(node.key, (node.server, 0))
        end, offset = metadata_log.high_watermark, max(log.start_offset, offset if life is node.server else 0)
        while offset < end:
            data = log.read(offset, READ_BYTES, limit_offset=end)
            assert data, f"Q3: {node.name} lacks what it has committed, from offset {offset} on"
            for _, header in iterate_headers(data):
                offset = header.next_offset
                here = header.partition_leader_epoch, header.crc
                known = self._committed.setdefault(header.base_offset, here)
                assert known == here, f"Q3: {node.name} has another batch at offset {header.base_offset}"
        self._compared[node.key] = node.server, offset

    def _check_snapshots(self, node: SimulatedController, metadata_log: MetadataLog) -> None:
        """Check that a log begins at a snapshot, whose epoch is that of its last record (Q10)."""
        log = metadata_log.node.log
        earliest, latest = log.earliest_snapshot_id, log.latest_snapshot_id
        begins = log.start_offset == 0 or (earliest is not None and earliest.offset <= log.start_offset)
        assert begins, f"Q10: {node.name} has no snapshot of what comes before {log.start_offset}"
        if latest is not None and log.start_offset < latest.offset <= metadata_log.high_watermark:
            epoch = max(self._epoch_at(log.read(latest.offset - 1, 1), latest.offset - 1), 0)
            assert latest.epoch == epoch, f"Q10: {node.name} has {latest}, whose last record is of epoch {epoch}"

    @staticmethod
    def _epoch_at(data: bytes, offset: int) -> int:
        for _, header in iterate_headers(data):
            if header.next_offset > offset:
                return header.partition_leader_epoch
        return -1
