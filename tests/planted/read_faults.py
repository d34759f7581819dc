"""Faults that reading the code found when every search was clean, and what finds each now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFault:
    """A fault that was in the code once."""

    does: str
    bugs: tuple[str, ...] = ()
    """Planted bugs that bring it back, by name."""
    kafka_test: str = ""
    """The test of Apache Kafka that failed before the mend."""


READ_FAULTS: Final = (
    ReadFault(
        does="A deleted topic's configurations come back under a foreign controller.",
        bugs=("a deleted topic leaves its configurations",),
    ),
    ReadFault(
        does="A static member that restarts between JoinGroup and SyncGroup ends the broker.",
        bugs=("a replaced static member owes its sync", "a replaced static member owes its sync to the cluster"),
    ),
    ReadFault(
        does="A member without the old protocol that joins while a static leader's record waits ends the broker.",
        bugs=("a replaced leader gets a generation that is over",),
    ),
    ReadFault(
        does="ListOffsets of a new leader answers below what readers have seen (KIP-207).",
        bugs=("a new leader says that its high watermark is the end",),
    ),
    ReadFault(
        does="The list of aborted transactions is not bounded by the bytes that a fetch reads.",
        bugs=("aborted transactions are listed up to the last stable offset",),
    ),
    ReadFault(does="Followers of transactional topics grow for ever.", bugs=("followers keep every marker",)),
    ReadFault(
        does="A shard that is unloaded while it loads is loaded on, and its memory is never given back.",
        bugs=("a shard that was given up goes on loading",),
    ),
    ReadFault(
        does="A topic that is deleted after damage can never be used again.",
        bugs=("a damaged log stays when its topic is deleted", "a log of an earlier topic is taken for the new one"),
    ),
    ReadFault(
        does="UpdateFeatures asks the local controller only.",
        bugs=("a feature level is set that a broker does not support",),
    ),
    ReadFault(
        does="Consumers are sent to replicas outside the in-sync set (KIP-392).",
        bugs=("consumers are sent to replicas out of sync",),
    ),
    ReadFault(
        does="Records that only Apache Kafka's controllers write stop a node, or are lost.",
        bugs=(
            "access control entries stop the node",
            "delegation tokens are not kept",
            "a changed registration keeps its cordoned directories",
        ),
    ),
    ReadFault(
        does="A group has no coordinator for long after its broker stopped.",
        kafka_test="PlaintextConsumerTest.testClassicConsumerCoordinatorFailover",
    ),
    ReadFault(
        does="No topic that needs a stopped broker's replica can be made.",
        bugs=("a stopped broker gets no replica",),
        kafka_test="ResetConsumerGroupOffsetTest.testResetOffsetsWithOfflinePartitionNotInResetTarget",
    ),
    ReadFault(does="A follower describes no producers.", bugs=("only leaders describe producers",)),
    ReadFault(does="An auto-created topic has other settings than in Kafka.", kafka_test="AutoTopicCreationTest"),
    ReadFault(
        does="DescribeQuorum tells directory ids at kraft.version 0.",
        bugs=("static voters have directory ids",),
    ),
)
