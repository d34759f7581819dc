"""Expiration of many offsets at once: removed in steps, with turns of the event loop in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.configs.settings import read_settings
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.classic.classic_group import ClassicGroup
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.machine import EXPIRED_AT_ONCE, GroupMachine
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.share.settings import ShareGroupConfig
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kwire.protocol.records import NO_PRODUCER_ID
from kwire.seams import SystemRandomSource
from tests.log.support import ManualClock


class Scheduled:
    """Timers that a test triggers."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[float, Callable[[], Any]]] = {}

    def schedule(self, name: str, delay_ms: float, step: Callable[[], Any]) -> None:
        self.steps[name] = (delay_ms, step)


def test_offset_expiration_continues_with_the_remaining_groups_in_the_next_step() -> None:
    timers = Scheduled()
    machine = GroupMachine(
        cast("Any", timers),
        config=GroupConfig(),
        consumer_config=lambda: read_settings(ConsumerGroupConfig, default_settings()),
        share_config=lambda: read_settings(ShareGroupConfig, default_settings()),
        streams_config=lambda: read_settings(StreamsGroupConfig, default_settings()),
        configs=GroupConfigs(lambda _: {}, default_settings),
        hashes=TopicHashes(),
        image=MetadataImage,
        newest_topics_version=lambda: -1,
        clock=ManualClock(),
        random_source=SystemRandomSource(1),
        reserve=lambda _: True,
        remove_unused=lambda _: None,
    )
    partitions = EXPIRED_AT_ONCE // 2
    for group_id in ("a", "b", "c", "d"):
        machine.groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=0)
        for index in range(partitions):
            key = OffsetCommitKey(group=group_id, topic="t", partition=index)
            machine.offsets.replay(key, OffsetCommitValue(offset=1, commit_timestamp=0), index, NO_PRODUCER_ID)
    removed: list[int] = []
    step: Callable[[], Any] | None = machine._expire
    while step is not None:
        timers.steps.pop("rest of expiration", None)
        removed.append(len(step().records))
        _, step = timers.steps.get("rest of expiration", (0.0, None))
    assert removed == [2 * (partitions + 1), 2 * (partitions + 1)]
