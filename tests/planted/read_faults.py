"""Faults found by reading the code, which no search had found, and the searches that find them now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFault:
    """Fault that the code once had."""

    does: str
    bugs: tuple[str, ...] = ()
    """Names of the planted bugs that restore the fault."""
    kafka_test: str = ""
    """Test of Apache Kafka that failed before the fix."""


READ_FAULTS: Final = (
    ReadFault(
        does="A deleted topic's configurations return if another Kafka implementation is the controller.",
        bugs=("a deleted topic leaves its configurations",),
    ),
    ReadFault(
        does="A static member that restarts between JoinGroup and SyncGroup crashes the broker.",
        bugs=("a replaced static member owes its sync", "a replaced static member owes its sync to the cluster"),
    ),
    ReadFault(
        does="A member without the old protocol that joins before a static leader's record commits crashes the broker.",
        bugs=("a replaced leader gets a generation that is over",),
    ),
    ReadFault(
        does="ListOffsets on a new leader returns an end offset below records that readers have read (KIP-207).",
        bugs=("a new leader says that its high watermark is the end",),
    ),
    ReadFault(
        does="The list of aborted transactions is not bounded by the bytes that a fetch reads.",
        bugs=("aborted transactions are listed up to the last stable offset",),
    ),
    ReadFault(does="Followers of transactional topics use ever more memory.", bugs=("followers keep every marker",)),
    ReadFault(
        does="A shard that is unloaded during its load continues to load, and its memory is never released.",
        bugs=("a shard that was given up goes on loading",),
    ),
    ReadFault(
        does="A topic name cannot be used again after its topic was damaged and deleted.",
        bugs=("a damaged log stays when its topic is deleted", "a log of an earlier topic is taken for the new one"),
    ),
    ReadFault(
        does="UpdateFeatures checks only the local controller.",
        bugs=("a feature level is set that a broker does not support",),
    ),
    ReadFault(
        does="Consumers are sent to replicas outside the in-sync set (KIP-392).",
        bugs=("consumers are sent to replicas out of sync",),
    ),
    ReadFault(
        does="Records that only Apache Kafka's controllers write crash a node, or are lost.",
        bugs=(
            "access control entries stop the node",
            "delegation tokens are not kept",
            "a changed registration keeps its cordoned directories",
        ),
    ),
    ReadFault(
        does="A group has no coordinator for a long time after its broker stopped.",
        kafka_test="PlaintextConsumerTest.testClassicConsumerCoordinatorFailover",
    ),
    ReadFault(
        does="No topic that needs a stopped broker's replica can be created.",
        bugs=("a stopped broker gets no replica",),
        kafka_test="ResetConsumerGroupOffsetTest.testResetOffsetsWithOfflinePartitionNotInResetTarget",
    ),
    ReadFault(does="A follower does not respond to DescribeProducers.", bugs=("only leaders describe producers",)),
    ReadFault(does="An auto-created topic has other settings than in Kafka.", kafka_test="AutoTopicCreationTest"),
    ReadFault(
        does="DescribeQuorum returns directory ids at kraft.version 0.",
        bugs=("static voters have directory ids",),
    ),
)
