"""Replication throttles: limits of bytes per second that leaders send and followers receive
of selected replicas (KIP-73).

A topic's configuration selects the replicas, and a broker's dynamic configuration sets the rate. In-sync replicas are
never throttled, because their leader waits for them. As in Kafka, the rate is measured over
replication.quota.window.num windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.partition import Partition
from kwire.seams import Clock
from kwire.server.quotas.rate import SampledRate
from kwire.server.settings.dynamic_configs import DynamicConfigs

UNLIMITED: Final = 2**63 - 1


class Side(Enum):
    """Side that is throttled."""

    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationQuotaWindows:
    """Windows in which replication traffic is sampled."""

    samples_max: int = setting("replication.quota.window.num")
    window_ms: int = setting("replication.quota.window.size.seconds", scale=1000)


class ReplicationQuota:
    """Limit and measured rate of one side."""

    def __init__(
        self,
        side: Side,
        *,
        broker_id: int,
        settings: CurrentSettings,
        dynamic_configs: DynamicConfigs,
        image: Callable[[], MetadataImage],
        clock: Clock,
    ) -> None:
        self._rate_key = f"{side.value}.replication.throttled.rate"
        self._replicas_key = f"{side.value}.replication.throttled.replicas"
        self._broker_id = broker_id
        self._dynamic_configs = dynamic_configs
        self._image = image
        self._clock = clock
        windows = settings.of(ReplicationQuotaWindows)
        self._sent = SampledRate(samples_max=windows.samples_max, window_ms=windows.window_ms)

    @property
    def limit(self) -> int:
        """Limit in bytes per second."""
        text = self._dynamic_configs.text_of(self._rate_key)
        return UNLIMITED if text is None else int(text)

    def is_throttled(self, partition: Partition, follower_id: int) -> bool:
        """Return True if a partition must not be sent to a follower now."""
        if self.limit == UNLIMITED or follower_id in partition.image.isr or not self._is_chosen(partition):
            return False
        return self._sent.measure(self._now_ms()) > self.limit

    def record(self, partition: Partition, size: int) -> None:
        """Count the replicated bytes of a partition."""
        if size and self.limit != UNLIMITED and self._is_chosen(partition):
            self._sent.record(size, self._now_ms())

    def _is_chosen(self, partition: Partition) -> bool:
        """Return True if the topic's configuration selects this broker's replica."""
        text = self._image().config_of(ConfigResourceType.TOPIC, partition.topic).get(self._replicas_key, "")
        names = [name.strip() for name in text.split(",")]
        return names == ["*"] or f"{partition.index}:{self._broker_id}" in names

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_ms())
