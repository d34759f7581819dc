"""Rules of a cluster at any moment, checked from outside: all nodes' images are states of one metadata log.

These rules extend those of the quorum (quorum_rules.py). A node's image never goes back while its process lives, and
all images at one offset are equal (Q11). Broker epochs and partition epochs only increase, and an epoch has one leader
(R16). Each new image is checked by itself (image_rules.py), and against its replicas (replica_rules.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.coordinator.shard import ShardState
from kwire.coordinator.transaction.memory import TransactionMemory
from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError
from kwire.protocol.error_codes import KafkaError
from kwire.simulation import ClusterBroker, SimulatedCluster, Simulation
from kwire.simulation.nodes import AnyNode
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.image_rules import check_image
from tests.simulation.quorum_rules import Rules
from tests.simulation.replica_rules import ReplicaRules


class Voter:
    """Controller, or combined node, as the rules of the quorum see it, from the opening of its log."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.name = node.name
        self.host = node.host
        self.key = node.key

    @property
    def is_serving(self) -> bool:
        return self.node.metadata_log is not None  # a node that failed otherwise still flushes and confirms that

    @property
    def server(self) -> Any:
        return self.node.open_node


class ClusterRules:
    """Rules of a cluster."""

    def __init__(
        self, simulation: Simulation, cluster: SimulatedCluster, ledger: Ledger, replicas: ReplicaRules
    ) -> None:
        self.replicas = replicas
        self._newest = -1
        self._timeline = simulation.timeline
        self._ledger = ledger
        self._by_host = {node.host: node for node in cluster.nodes}
        voters: Sequence[Any] = [Voter(node) for node in cluster.voters]
        self.quorum = Rules(simulation, voters)
        self._seen: dict[AnyNode, tuple[MetadataLog, MetadataImage]] = {}
        self._images: dict[int, tuple[str, MetadataImage]] = {}
        """First image at each offset, with the node that had it."""

    def at_any_moment(self) -> None:
        """Check the rules after an event; expensive only if a node has a new image."""
        host = getattr(self._timeline.loop, "host", None)
        node = self._by_host.get(host) if host is not None else None
        if node is None:
            return
        self.quorum.at_any_moment()
        log = node.metadata_log
        before = self._seen.get(node)
        if log is None or (before is not None and before[1] is log.image and before[0] is log):
            return
        _check_failure(node)
        if log.failed.done():
            return
        if before is not None and before[0] is log:
            self._check(node, before[1], log.image)
        self._compare(node, log.image)
        self._seen[node] = log, log.image

    def of_whole_logs(self) -> None:
        """Check whole logs from time to time."""
        for node in self._by_host.values():
            _check_failure(node)
        self.quorum.of_whole_logs()
        self.replicas.of_whole_logs()
        for node in self._by_host.values():
            if isinstance(node, ClusterBroker) and node.is_serving:
                _check_coordinators(node)
                _check_share_partitions(node)

    def _compare(self, node: AnyNode, image: MetadataImage) -> None:
        other, known = self._images.setdefault(image.offset, (node.name, image))
        assert known == image, f"Q11: {other} and {node.name} have different images at {image.offset}"
        if known is image:
            for topic in image.topics.values():
                for index, part in enumerate(topic.partitions):
                    self._ledger.lead(topic.topic_id, index, part.leader_epoch, part.leader)
                    assert part.leader in (*part.replicas, -1), f"{part.leader} leads and is no replica: {part}"
        if image.offset > self._newest:
            self._newest = image.offset
            check_image(image)
            self.replicas.image_changed(image)
            back = self._ledger.deleted.intersection(image.topic_names)
            assert not back, f"R18: topics {back} are there after their deletion, at {image.offset}"

    def _check(self, node: AnyNode, old: MetadataImage, new: MetadataImage) -> None:
        assert new.offset > old.offset or new == old, f"Q11: {node.name} went back from {old.offset} to {new.offset}"
        for broker_id, broker in old.brokers.items():
            epoch = new.brokers[broker_id].broker_epoch
            assert epoch >= broker.broker_epoch, f"broker {broker_id} has epoch {epoch} after {broker.broker_epoch}"
        for name, topic in old.topics.items():
            later = new.topics.get(name)
            if later is not None and later is not topic and later.topic_id == topic.topic_id:
                _check_epochs(topic, later)


def _check_coordinators(broker: ClusterBroker) -> None:
    """Check coordinators: no request breaks a group's invariants (G6), and memory counts only loaded shards (M1)."""
    services = broker.server.services
    for coordinator in (services.groups, services.transactions):
        assert not coordinator._runtime.reloads, f"G6: {broker.name} has reloaded a shard of {coordinator}"
    for shard in services.groups._runtime:
        for group in shard.machine.groups.values() if shard.state is ShardState.ACTIVE else ():
            try:
                group.check_invariants()
            except AssertionError as error:
                raise AssertionError(f"G6: {broker.name}: group {group.group_id} is broken: {error}") from error
    transactions = services.transactions
    held = [each for shard in transactions._runtime for each in shard.machine.transactions.values()]
    recount = TransactionMemory(0)
    for transaction in held:
        recount.count(None, transaction)
    counted = transactions._memory._counted
    assert counted == recount._counted, f"M1: {broker.name} counts {counted} bytes for {len(held)} transactional ids"


def _check_share_partitions(broker: ClusterBroker) -> None:
    """Check the share partitions that a broker leads: each record has one state, and one member or none (A1)."""
    for group in broker.server.services.share_partitions._groups.values():
        for led in group.values():
            try:
                if led.state is not None:
                    led.state.check_invariants()
            except AssertionError as error:
                raise AssertionError(f"A1: {broker.name}: {led!r} is broken: {error}") from error


def _check_failure(node: AnyNode) -> None:
    failure = node.failure
    if failure is not None and not isinstance(failure, (DiskFailure, LogDirectoryError, KafkaError)):
        raise AssertionError(f"Q6: {node.name} found itself broken: {failure!r}") from failure


def _check_epochs(old: TopicImage, new: TopicImage) -> None:
    for index, (before, after) in enumerate(zip(old.partitions, new.partitions, strict=False)):
        place = f"partition {index} of {new.name}"
        assert after.leader_epoch >= before.leader_epoch, f"{place}: a leader epoch went back"
        assert after.partition_epoch >= before.partition_epoch, f"{place}: a partition epoch went back"
        is_changed = after != before
        assert not is_changed or after.partition_epoch > before.partition_epoch, f"{place} changed within its epoch"
        is_led_by_another = after.leader != before.leader
        assert not is_led_by_another or after.leader_epoch > before.leader_epoch, f"{place}: two leaders in an epoch"
