"""What is promised: up to which number of crashes at once nothing may be lost, and so which crashes a seed may have.

What is flushed before it is acknowledged survives any number of power cuts. Without that, min.insync.replicas - 1
brokers may lose what they had not flushed, or their whole disks; the next one only when the first is in sync again
everywhere. A broker that was killed loses nothing, but nobody can tell that from a power cut: it counts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.cluster.image import MetadataImage
from kwire.simulation import ClusterBroker, SimulatedCluster
from kwire.simulation.hosts import Process
from kwire.simulation.nodes import AnyNode
from kwire.simulation.random_source import SeededRandomSource
from tests.simulation.image_rules import places

WITH_POWER_CUTS = frozenset({"power", "broken_disk", "blackout"})
NEVER_FLUSH = 10**9
STRIKE_SECONDS = 30.0
"""Within which who is allowed to crash does so, or does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a seed may ask for."""

    name: str
    flush_messages: int
    is_bounded: bool = False
    """One broker at a time crashes, and topics have three replicas of which two or three must be in sync."""
    has_power_cuts: bool = True
    may_wipe: bool = False
    is_lossless: bool = True

    def kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Those of the faults that it has."""
        wiping = ("wipe", "wipe") if self.may_wipe else ()
        return (*(kind for kind in kinds if self.has_power_cuts or kind not in WITH_POWER_CUTS), *wiping)


def draw_promise(seed: int, random_source: SeededRandomSource, *, has_controllers: bool) -> Promise:
    """One in ten seeds goes beyond what is promised."""
    if seed % 10 == 9:
        return Promise(name="beyond", flush_messages=NEVER_FLUSH, may_wipe=has_controllers, is_lossless=False)
    draw = random_source.below(10)
    if draw < 4:
        return Promise(name="flushed", flush_messages=1)
    if draw < 6:
        return Promise(name="written", flush_messages=NEVER_FLUSH, has_power_cuts=False)
    flush_messages = random_source.pick((1, NEVER_FLUSH, NEVER_FLUSH))
    return Promise(name="bounded", flush_messages=flush_messages, is_bounded=True, may_wipe=has_controllers)


class Crashes:
    """Which brokers may crash now."""

    def __init__(self, cluster: SimulatedCluster, promise: Promise) -> None:
        self._cluster = cluster
        self._promise = promise
        self._victim: AnyNode | None = None
        self._struck: Process | None = None
        """What ran on the victim when it was struck."""
        self._until = 0.0

    @property
    def has_power_cuts(self) -> bool:
        return self._promise.has_power_cuts

    def may(self, node: AnyNode) -> bool:
        """Whether a node may crash; it is taken for crashed then."""
        if not self._promise.is_bounded or node not in self._cluster.brokers:
            return True
        now = node.host.timeline.now
        if node is not self._victim:
            is_about_to_crash = self._victim is not None and self._victim.host.process is self._struck
            if not self._is_whole() or (is_about_to_crash and now < self._until):
                return False
        # Who was the last to crash, and is back since, is about to crash once more: nobody else may with it.
        self._victim, self._struck, self._until = node, node.host.process, now + STRIKE_SECONDS
        return True

    def is_counted_on(self, node: ClusterBroker) -> bool:
        """Whether the metadata take a broker for one that has what others lack; beyond the promise nobody asks."""
        if not self._promise.is_lossless:
            return False
        image = newest_image(self._cluster)
        return any(
            node.node_id in (part.leader, *part.isr, *part.eligible_leader_replicas, *part.last_known_elr)
            for _, _, part in places(image)
        )

    def _is_whole(self) -> bool:
        """Whether all brokers serve, and all replicas are in sync."""
        image = newest_image(self._cluster)
        return (
            all(broker.is_serving and broker.failure is None for broker in self._cluster.brokers)
            and len(image.brokers) == len(self._cluster.brokers)
            and not any(broker.fenced for broker in image.brokers.values())
            and all(set(part.isr) == set(part.replicas) for _, _, part in places(image))
        )


def newest_image(cluster: SimulatedCluster) -> MetadataImage:
    """The newest state of the metadata that some node knows."""
    images = [log.image for node in cluster.nodes if (log := node.metadata_log) is not None]
    return max(images, key=lambda image: image.offset, default=MetadataImage())
