"""Rules of replicas (R1 to R7, R9, R10, R12, R16), checked from outside, over all brokers and restarts.

The observer stores the true high watermark of each partition: the highest one that any replica had, or that a client
received. Every few events, it checks the partitions of all serving brokers and their changes. From time to time, it
reads their committed records: they must be equal on all replicas (R6), and in-sync replicas must have all of them (R5).
Each leader, and each replica that may be elected without data loss, has all of them too (R1, R2). A leader with the
newest epoch waits for all replicas that are in sync for the controller (R3).

A change of min.insync.replicas while too few replicas are in sync makes all others ineligible, as in Kafka. Until
enough are in sync again, the election of a last known leader that crashed meanwhile may lose records of that partition.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage, PartitionImage
from kwire.cluster.partitions.in_sync import Followers, Proposal
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.protocol.records import iterate_headers
from kwire.simulation import ClusterBroker, SimulatedCluster
from tests.simulation.cluster_ledger import Ledger, PartitionKey
from tests.simulation.image_rules import (
    changes,
    check_changes,
    check_unclean_start,
    elections_of_others,
    has_too_few,
    joined,
    left_to_too_few,
    places,
    unasked,
    unclean_starts,
)

READ_BYTES = 1 << 20


@dataclass(slots=True)
class Truth:
    """True state of a partition."""

    high_watermark: int = 0
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Epoch and CRC of the committed batch, by offset."""


@dataclass(slots=True)
class Sight:
    """State of a replica when it was checked."""

    partition: Partition
    image: PartitionImage
    high_watermark: int
    start: int
    end: int
    epoch: int
    is_led: bool
    in_sync: int
    needed: int
    proposal: Proposal | None


def _proposal(followers: Followers | None) -> Proposal | None:
    return None if followers is None else followers.proposal


def _began_with_whole_batch(before: Sight, now: Sight) -> bool:
    """Return True if an empty follower starts at the leader's first batch, which contains the leader's log start."""
    first = next((header for _, header in iterate_headers(now.partition.log.read(now.start, 1))), None)
    was_empty = before.start == before.end and not before.is_led and not now.is_led
    return was_empty and first is not None and first.base_offset == now.start < before.start <= first.last_offset


def _maximal(partition: Partition) -> set[int]:
    """Return the replicas that are in sync for a leader, and those that it has proposed to add."""
    proposal = _proposal(partition.followers)
    return {*partition.image.isr, *(() if proposal is None else proposal.isr)}


class ReplicaRules:
    """Rules of replicas."""

    def __init__(self, cluster: SimulatedCluster, ledger: Ledger, *, is_lossless: bool = True) -> None:
        """Create the rules; if not lossless, an election of a replica neither in sync nor eligible may lose records."""
        self._brokers = {broker.node_id: broker for broker in cluster.brokers}
        self._ledger = ledger
        self._is_lossless = is_lossless
        self._truths: dict[PartitionKey, Truth] = {}
        self._seen: dict[tuple[int, PartitionKey], Sight] = {}
        self._compared: dict[tuple[int, PartitionKey], tuple[Partition, int]] = {}
        self._left_to_few: set[PartitionKey] = set()
        """Partitions with too few in-sync replicas: their loss is allowed, even if other replicas have all records."""
        self._image = MetadataImage()
        self._registered: dict[int, Any] = {}
        """Node of each broker at the time when its registration became visible."""
        ledger.acknowledged_at = self._acknowledged

    def truth(self, key: PartitionKey) -> Truth:
        """Return the true state of a partition."""
        found = self._truths.get(key)
        if found is None:
            found = self._truths[key] = Truth()
        return found

    def _acknowledged(self, key: PartitionKey, offset: int) -> None:
        truth = self.truth(key)
        truth.high_watermark = max(truth.high_watermark, offset + 1)

    @property
    def losses(self) -> set[PartitionKey]:
        """Return the partitions that may lack records: only the equality of their replicas is checked at the end."""
        return self._ledger.forgiven

    # --- metadata

    def image_changed(self, image: MetadataImage) -> None:
        """Check a new committed state of the metadata."""
        old, self._image = self._image, image
        check_changes(old, image)
        for broker_id in unclean_starts(old, image, self._may_have_ended_cleanly):
            check_unclean_start(image, broker_id)
        self._note_registrations(old)
        self._left_to_few.update(left_to_too_few(old, image))
        for key in elections_of_others(old, image):
            if not self._is_lossless or key in self._left_to_few:
                self._ledger.forgive(key)
        if self._left_to_few:
            self._left_to_few &= {
                (topic.topic_id, index) for topic, index, _ in places(image) if has_too_few(image, topic, index)
            }
        for topic, index, broker_id in joined(old, image):
            self._check_joined(topic.name, topic.topic_id, index, broker_id)
        for topic, index, _, _ in changes(old, image):
            self._check_maximal(topic.name, (topic.topic_id, index))
        for topic, index, found in unasked(old, image):
            self._check_asked(topic.name, (topic.topic_id, index), found)

    def _note_registrations(self, old: MetadataImage) -> None:
        for broker_id, known in self._image.brokers.items():
            before = old.brokers.get(broker_id)
            if before is None or before.broker_epoch != known.broker_epoch:
                self._registered[broker_id] = getattr(self._brokers.get(broker_id), "open_node", None)

    def _may_have_ended_cleanly(self, broker_id: int) -> bool:
        """Return True if the last registered process may have closed its logs, as far as that process is known."""
        node = self._registered.get(broker_id)
        if node is None:
            return True
        tasks = node.broker_tasks._tasks  # none early in a start; they end before the logs are closed
        return bool(tasks) and all(task.done() for task in tasks)

    def _leading(self, topic: str, key: PartitionKey) -> Partition | None:
        """Return the leader's replica in the newest epoch, if it has that epoch and there are other replicas."""
        known = self._partition_image(topic, key)
        leading = None if known is None else self._candidate(known.leader, topic, *key)
        if known is None or leading is None or leading.followers is None or leading.leader_epoch != known.leader_epoch:
            return None
        return leading

    def _check_maximal(self, topic: str, key: PartitionKey) -> None:
        """Check that a leader waits for all replicas that are in sync for the controller, even with older metadata
        (R3).

        While enough replicas are in sync, no other replica is eligible (R13).
        """
        known, leading = self._partition_image(topic, key), self._leading(topic, key)
        if known is None or leading is None:
            return
        missing = set(known.isr) - _maximal(leading)
        assert not missing, (
            f"R3: {topic}-{key[1]}: {known.isr} are in sync at partition epoch {known.partition_epoch}; broker "
            f"{known.leader}, which leads, is at {leading.image.partition_epoch}, and {missing} do not count for it"
        )

    def _check_asked(self, topic: str, key: PartitionKey, found: set[int]) -> None:
        """Check that a leader's proposal changed the state for which it was made, and no later one (R10)."""
        known, leading = self._partition_image(topic, key), self._leading(topic, key)
        if known is None or leading is None or leading.image.partition_epoch >= known.partition_epoch:
            return  # the leader has received the change already
        proposal = _proposal(leading.followers)
        epoch = None if proposal is None else proposal.partition_epoch
        assert epoch == known.partition_epoch - 1, (
            f"R10: {topic}-{key[1]}: {known.isr} at partition epoch {known.partition_epoch}, other than before in "
            f"{found}; its leader has proposed {proposal}"
        )

    def _check_joined(self, topic: str, topic_id: UUID, index: int, broker_id: int) -> None:
        """Check that a replica that joins has all committed records, and all from before the leader's epoch (R9)."""
        found = self._candidate(broker_id, topic, topic_id, index)
        if found is None or (topic_id, index) in self.losses:
            return
        truth, end = self.truth((topic_id, index)), found.log.log_end_offset
        assert end >= truth.high_watermark, (
            f"R9: {topic}-{index}: broker {broker_id} joins with {end} of {truth.high_watermark}"
        )
        leader = self._image.topics[topic].partitions[index].leader
        leading = self._candidate(leader, topic, topic_id, index)
        if leading is not None and leading.is_led and leading.leader_epoch == found.leader_epoch:
            start = dict(leading.log.leader_epochs.entries()).get(leading.leader_epoch, 0)
            assert end >= start, f"R9: {topic}-{index}: broker {broker_id} joins at {end}, before its epoch's {start}"

    def _candidate(self, broker_id: int, topic: str, topic_id: UUID, index: int) -> Partition | None:
        """Return a replica whose broker is the registered process."""
        broker, known = self._brokers.get(broker_id), self._image.brokers.get(broker_id)
        if broker is None or known is None or known.fenced or not broker.is_serving or broker.failure is not None:
            return None
        if broker.server._registrar.broker_epoch() != known.broker_epoch:
            return None
        partition = broker.server.services.partitions.get(topic, index)
        if partition is None or partition.topic_id != topic_id or partition.log.failure is not None:
            return None
        return partition

    # --- every few events

    def look(self) -> None:
        """Check all replicas; expensive only for changed ones."""
        for broker_id, broker in self._brokers.items():
            if broker.is_serving:
                self._look_at(broker_id, broker)

    def _look_at(self, broker_id: int, broker: ClusterBroker) -> None:
        for partition in broker.server.services.partitions:
            key = partition.topic_id, partition.index
            log, followers = partition.log, partition.followers
            before = self._seen.get((broker_id, key))
            if (
                before is not None
                and before.partition is partition
                and before.end == log.log_end_offset
                and before.high_watermark == partition.high_watermark
                and before.image is partition.image
                and before.is_led == partition.is_led
                and (followers is None or followers.proposal is before.proposal)
            ):
                continue
            if log.failure is not None:
                continue
            now = Sight(
                partition,
                partition.image,
                partition.high_watermark,
                log.log_start_offset,
                log.log_end_offset,
                partition.leader_epoch,
                partition.is_led,
                len(partition.image.isr),
                min(log.config.min_insync_replicas, len(partition.image.replicas)),
                _proposal(followers),
            )
            self._seen[broker_id, key] = now
            self._check(broker_id, key, now, before if before is not None and before.partition is partition else None)

    def _check(self, broker_id: int, key: PartitionKey, now: Sight, before: Sight | None) -> None:
        partition, truth = now.partition, self.truth(key)
        place = f"{partition.topic}-{partition.index} on broker {broker_id}"
        assert now.start <= now.high_watermark <= now.end, (
            f"R7: {place}: {now.start} <= {now.high_watermark} <= {now.end}"
        )
        stable = partition.log.last_stable_offset(now.high_watermark)
        assert stable <= now.high_watermark, f"R7: {place}: {stable} is stable, {now.high_watermark} is committed"
        kept = partition.log.producers._unreplicated
        assert not kept or kept[0][1] >= now.high_watermark, f"M1: {place}: keeps a marker below the high watermark"
        if now.is_led:
            self._ledger.lead(*key, now.epoch, broker_id)
            if before is None or before.epoch != now.epoch or not before.is_led:
                self._ledger.new_leaders.append((broker_id, partition.topic, key, now.epoch))
            if before is None or before.image is not now.image or before.proposal is not now.proposal:
                self._check_maximal(partition.topic, key)
        if key in self.losses:
            return
        if before is not None:
            assert now.high_watermark >= before.high_watermark or _began_with_whole_batch(before, now), (
                f"R7: {place}: the high watermark went back from {before.high_watermark} to {now.high_watermark}"
            )
        if before is not None and before.is_led and now.is_led and before.epoch == now.epoch:
            self._check_advance(place, now, before)
            if now.high_watermark > before.high_watermark:
                self._check_waited_for(place, now)
        if now.high_watermark > truth.high_watermark:
            truth.high_watermark = now.high_watermark
            self._check_candidates(partition.topic, key)
        else:
            self._check_candidate(partition.topic, key, broker_id)

    def _check_advance(self, place: str, now: Sight, before: Sight) -> None:
        """Check that the high watermark advances only with enough in-sync replicas, of which some may have left since
        (R4).
        """
        changes = now.image.partition_epoch - before.image.partition_epoch
        is_same = before.in_sync == now.in_sync and changes <= 1
        if now.high_watermark > before.high_watermark and now.end == before.end and is_same:
            needed = min(now.needed, before.needed)
            assert now.in_sync >= needed, f"R4: {place}: commits with {now.in_sync} in sync of {needed} that are needed"

    @staticmethod
    def _check_waited_for(place: str, now: Sight) -> None:
        """Check that the high watermark advances only after fetches in this epoch by all (possibly) in-sync replicas
        (R3).
        """
        followers = now.partition.followers
        if followers is None:
            return
        for broker_id in _maximal(now.partition):
            if followers.is_follower(broker_id):
                end = followers.follower(broker_id).log_end_offset
                assert end >= now.high_watermark, (
                    f"R3: {place}: commits {now.high_watermark}; broker {broker_id} has fetched up to {end}"
                )

    def _partition_image(self, topic: str, key: PartitionKey) -> PartitionImage | None:
        known = self._image.topics.get(topic)
        if known is None or known.topic_id != key[0] or key[1] >= len(known.partitions):
            return None
        return known.partitions[key[1]]

    def _check_candidates(self, topic: str, key: PartitionKey) -> None:
        image = self._partition_image(topic, key)
        if image is not None:
            for broker_id in (*image.isr, *image.eligible_leader_replicas):
                self._check_candidate(topic, key, broker_id)

    def _check_candidate(self, topic: str, key: PartitionKey, broker_id: int) -> None:
        """Check that each leader, and each replica electable without data loss, has all committed records (R1, R2)."""
        image = self._partition_image(topic, key)
        if image is None or key in self.losses or broker_id not in (*image.isr, *image.eligible_leader_replicas):
            return
        found = self._candidate(broker_id, topic, *key)
        if found is None:
            return
        end, committed = found.log.log_end_offset, self.truth(key).high_watermark
        rule, what = ("R1", "leads") if image.leader == broker_id else ("R2", "may lead")
        assert end >= committed, f"{rule}: {topic}-{key[1]}: broker {broker_id} {what}, has {end} of {committed}"

    # --- from time to time

    def of_whole_logs(self) -> None:
        """Check whole logs, which is expensive: committed records are equal on all replicas."""
        for broker_id, broker in self._brokers.items():
            if broker.is_serving and broker.failure is None:
                with broker.host.device.sound():
                    for partition in broker.server.services.partitions:
                        if partition.log.failure is None and (partition.topic_id, partition.index) not in self.losses:
                            self._compare(broker_id, partition, partition.high_watermark)
                            self._compare_in_sync(broker_id, partition)
        for topic in self._image.topics.values():
            for index in range(len(topic.partitions)):
                self._check_candidates(topic.name, (topic.topic_id, index))

    def of_replicas_at_rest(self, closed: AbstractSet[tuple[str, int]]) -> None:
        """Check that all replicas are equal up to their ends, except those closed on a broker, by topic and index."""
        for key in self.losses:
            self._truths.pop(key, None)
        self._compared = {place: each for place, each in self._compared.items() if place[1] not in self.losses}
        ends: dict[PartitionKey, dict[int, tuple[int, int]]] = {}
        for broker_id, broker in self._brokers.items():
            for partition in broker.server.services.partitions:
                if (partition.topic, partition.index) in closed:
                    continue
                key = partition.topic_id, partition.index
                log = partition.log
                ends.setdefault(key, {})[broker_id] = log.log_start_offset, log.log_end_offset
                self._compare(broker_id, partition, log.log_end_offset)
        for key, found in ends.items():
            if key in self._ledger.trimmed:
                self._check_trimmed(key, found)
            elif self._image.topic_names.get(key[0]) == SHARE_STATE_TOPIC:
                # Its leader deletes old records at any time; the followers do so a moment later.
                assert len({end for _, end in found.values()}) == 1, f"R6: {key}: replicas end differently: {found}"
            else:
                assert len(set(found.values())) == 1, f"R6: {key}: replicas begin and end differently: {found}"

    def _check_trimmed(self, key: PartitionKey, found: dict[int, tuple[int, int]]) -> None:
        """Check log starts: a leader's may be higher than its followers'; no replica starts before its leader."""
        topic = self._image.topic_names[key[0]]
        leading = self._image.topics[topic].partitions[key[1]].leader
        first = found[leading][0]
        assert len({end for _, end in found.values()}) == 1, f"R6: {key}: replicas end differently: {found}"
        starts = [start for start, _ in found.values()]
        assert first == min(starts), f"R6: {key}: replicas begin before their leader {leading}: {found}"
        asked = self._ledger.trimmed[key]
        assert max(starts) <= asked, f"R6: {key}: nobody asked to delete beyond {asked}: {found}"

    def _compare_in_sync(self, broker_id: int, partition: Partition) -> None:
        """Check that an in-sync replica has all committed records, even those above its own high watermark (R5)."""
        key = partition.topic_id, partition.index
        known = self._partition_image(partition.topic, key)
        if known is None or broker_id not in known.isr:
            return
        if self._candidate(broker_id, partition.topic, *key) is partition:
            end = min(self.truth(key).high_watermark, partition.log.log_end_offset)
            self._compare(broker_id, partition, end, rule="R5")

    def _compare(self, broker_id: int, partition: Partition, end: int, *, rule: str = "R6") -> None:
        key = partition.topic_id, partition.index
        truth, log = self.truth(key), partition.log
        known, offset = self._compared.get((broker_id, key), (partition, 0))
        offset = max(offset if known is partition else 0, log.log_start_offset)
        while offset < end:
            data = log.read(offset, READ_BYTES, limit_offset=end)
            assert data, f"{rule}: {log!r} on broker {broker_id} lacks what is committed, from {offset} on"
            offset = self._compare_batches(f"{rule}: {log!r} on broker {broker_id}", truth, data, offset)
        self._compared[broker_id, key] = partition, offset

    @staticmethod
    def _compare_batches(place: str, truth: Truth, data: Any, offset: int) -> int:
        for _, header in iterate_headers(data):
            here = header.partition_leader_epoch, header.crc
            for each in range(header.base_offset, header.next_offset):
                known = truth.batches.setdefault(each, here)
                assert known == here, f"{place} has {here} at {each}, where {known} is committed"
            offset = header.next_offset
        return offset
