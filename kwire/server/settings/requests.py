"""Settings that request handlers read."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """Limits and switches of requests."""

    fetch_bytes_max: int = setting("fetch.max.bytes")
    described_partitions_max: int = setting("max.request.partition.size.limit")
    deletes_topics: bool = setting("delete.topic.enable")
    creates_topics: bool = setting("auto.create.topics.enable")
    replica_selector: str | None = setting("replica.selector.class")
    rack: str | None = setting("broker.rack")
    telemetry_bytes_max: int = setting("telemetry.max.bytes")
    fetch_session_slots: int = setting("max.incremental.fetch.session.cache.slots")
