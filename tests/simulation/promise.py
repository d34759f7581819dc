"""Promised fault tolerance: the number of simultaneous crashes without data loss, and the crashes that a seed may have.

Data flushed before its acknowledgement survives any number of power cuts. Without such flushes, min.insync.replicas - 1
brokers may lose unflushed data, or their disks. The next broker may crash only when all earlier ones are in sync again
everywhere. A killed broker loses no data, but other nodes cannot distinguish that from a power cut, so it counts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.cluster.metadata.image import MetadataImage
from kwire.simulation import ClusterBroker, SimulatedCluster
from kwire.simulation.hosts import Process
from kwire.simulation.nodes import AnyNode
from kwire.simulation.random_source import SeededRandomSource
from tests.simulation.image_rules import places

WITH_POWER_CUTS = frozenset({"power", "broken_disk", "blackout"})
NEVER_FLUSH = 10**9
STRIKE_SECONDS = 30.0
"""Time in which an allowed crash must begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Limits of faults in a seed."""

    name: str
    flush_messages: int
    is_bounded: bool = False
    """True if one broker at a time crashes, and topics have three replicas of which two or three must be in sync."""
    has_power_cuts: bool = True
    may_wipe: bool = False
    is_lossless: bool = True

    def kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the kinds of faults that this promise allows."""
        wiping = ("wipe", "wipe") if self.may_wipe else ()
        return (*(kind for kind in kinds if self.has_power_cuts or kind not in WITH_POWER_CUTS), *wiping)


def draw_promise(seed: int, random_source: SeededRandomSource, *, has_controllers: bool) -> Promise:
    """Draw the promise of a seed; one in ten seeds exceeds the promised faults."""
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
    """Brokers that may crash now."""

    def __init__(self, cluster: SimulatedCluster, promise: Promise) -> None:
        self._cluster = cluster
        self._promise = promise
        self._victim: AnyNode | None = None
        self._struck: Process | None = None
        """Process of the victim at the time of its crash."""
        self._until = 0.0

    @property
    def has_power_cuts(self) -> bool:
        return self._promise.has_power_cuts

    def may(self, node: AnyNode) -> bool:
        """Return True if a node may crash; it then counts as crashed."""
        if not self._promise.is_bounded or node not in self._cluster.brokers:
            return True
        now = node.host.timeline.now
        if node is not self._victim:
            is_about_to_crash = self._victim is not None and self._victim.host.process is self._struck
            if not self._is_whole() or (is_about_to_crash and now < self._until):
                return False
        # The last victim has returned and is about to crash again: no other broker may crash at the same time.
        self._victim, self._struck, self._until = node, node.host.process, now + STRIKE_SECONDS
        return True

    def is_counted_on(self, node: ClusterBroker) -> bool:
        """Return True if the broker may have records that others lack; always False if the seed exceeds the promise."""
        if not self._promise.is_lossless:
            return False
        image = newest_image(self._cluster)
        return any(
            node.node_id in (part.leader, *part.isr, *part.eligible_leader_replicas, *part.last_known_elr)
            for _, _, part in places(image)
        )

    def _is_whole(self) -> bool:
        """Return True if all brokers serve, and all replicas are in sync."""
        image = newest_image(self._cluster)
        return (
            all(broker.is_serving and broker.failure is None for broker in self._cluster.brokers)
            and len(image.brokers) == len(self._cluster.brokers)
            and not any(broker.fenced for broker in image.brokers.values())
            and all(set(part.isr) == set(part.replicas) for _, _, part in places(image))
        )


def newest_image(cluster: SimulatedCluster) -> MetadataImage:
    """Return the newest metadata image of any node."""
    images = [log.image for node in cluster.nodes if (log := node.metadata_log) is not None]
    return max(images, key=lambda image: image.offset, default=MetadataImage())
