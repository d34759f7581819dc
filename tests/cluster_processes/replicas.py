"""Partition states according to a cluster: leaders and in-sync replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kwire.protocol.messages.metadata import MetadataRequest
from tests.cluster_processes.brokers import BrokerNode

VERSION = 12
ANSWER_SECONDS = 1.0
Place = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """State of a partition in a broker's metadata."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_well(self) -> bool:
        return self.leader >= 0 and sorted(self.in_sync) == sorted(self.replicas)


def partitions_told_by(node: BrokerNode) -> dict[Place, PartitionState]:
    """Return all partitions in this broker's metadata. Raises OSError."""
    answer = node.ask(MetadataRequest(topics=None), VERSION, ANSWER_SECONDS)
    return {
        (topic.name, each.partition_index): PartitionState(
            leader=each.leader_id,
            leader_epoch=each.leader_epoch,
            replicas=tuple(each.replica_nodes),
            in_sync=tuple(each.isr_nodes),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def newest(reported: list[Mapping[Place, PartitionState]]) -> dict[Place, PartitionState]:
    """Return the states with the newest leader epoch among those of several brokers."""
    found: dict[Place, PartitionState] = {}
    for each in reported:
        for place, state in each.items():
            if place not in found or state.leader_epoch > found[place].leader_epoch:
                found[place] = state
    return found
