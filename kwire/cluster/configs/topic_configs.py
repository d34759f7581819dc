"""Topic configurations: validation, defaults from the broker's settings, and the resulting log configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.cluster.configs.config_keys import INT64_MAX, ConfigError, ConfigKey, parse
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.log.config import LogConfig

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

UNIT_MS = {
    "log.retention.minutes": _MINUTE_MS,
    "log.retention.hours": _HOUR_MS,
    "log.roll.hours": _HOUR_MS,
    "log.roll.jitter.hours": _HOUR_MS,
}
"""Milliseconds per unit, for broker keys whose unit differs from that of the topic key."""


def check_topic_configs(values: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Validate topic configurations on a broker with these settings. Raises ConfigError."""
    for name in values:
        if name not in TOPIC_KEYS:
            raise ConfigError.saying(name, f"Unknown topic config name: {name}")
    typed = {name: parse(TOPIC_KEYS[name], value) for name, value in values.items()}
    minimum = typed.get("min.compaction.lag.ms", settings["log.cleaner.min.compaction.lag.ms"])
    maximum = typed.get("max.compaction.lag.ms", settings["log.cleaner.max.compaction.lag.ms"])
    if minimum > maximum:
        raise ConfigError.saying(
            "min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > max.compaction.lag.ms ({maximum})",
        )
    if typed.get("remote.storage.enable"):
        raise ConfigError.saying(
            "remote.storage.enable",
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def topic_default(key: ConfigKey, settings: Mapping[str, Any]) -> Any:
    """Return the default of a topic key on a broker with these settings."""
    for name in key.synonyms:
        value = settings[name]
        if value is not None:
            return _in_milliseconds(value, UNIT_MS[name]) if name in UNIT_MS else _unlimited(key, value)
    return parse(key, key.default)


def _in_milliseconds(value: int, unit: int) -> int:
    return -1 if value < 0 else min(value * unit, INT64_MAX)


def _unlimited(key: ConfigKey, value: Any) -> Any:
    return -1 if key.name == "retention.ms" and value < 0 else value


def topic_value(name: str, overrides: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """Return the typed value of a topic key: the topic's override, or the default from the broker's settings."""
    key = TOPIC_KEYS[name]
    text = overrides.get(name)
    return parse(key, text) if text is not None else topic_default(key, settings)


def log_config(overrides: Mapping[str, str], settings: Mapping[str, Any]) -> LogConfig:
    """Return the log configuration of a topic with these overrides, on a broker with these settings."""

    def value(name: str) -> Any:
        return topic_value(name, overrides, settings)

    internal_segment_bytes = value("internal.segment.bytes")
    return LogConfig(
        cleanup_policy=tuple(value("cleanup.policy")),
        compression_gzip_level=value("compression.gzip.level"),
        compression_lz4_level=value("compression.lz4.level"),
        compression_type=value("compression.type"),
        compression_zstd_level=value("compression.zstd.level"),
        delete_retention_ms=value("delete.retention.ms"),
        file_delete_delay_ms=value("file.delete.delay.ms"),
        flush_messages=value("flush.messages"),
        flush_ms=value("flush.ms"),
        index_interval_bytes=value("index.interval.bytes"),
        max_compaction_lag_ms=value("max.compaction.lag.ms"),
        max_message_bytes=value("max.message.bytes"),
        message_timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        message_timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
        message_timestamp_type=value("message.timestamp.type"),
        min_cleanable_dirty_ratio=value("min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=value("min.compaction.lag.ms"),
        min_insync_replicas=value("min.insync.replicas"),
        preallocate=value("preallocate"),
        retention_bytes=value("retention.bytes"),
        retention_ms=value("retention.ms"),
        segment_bytes=value("segment.bytes") if internal_segment_bytes is None else internal_segment_bytes,
        segment_index_bytes=value("segment.index.bytes"),
        segment_jitter_ms=value("segment.jitter.ms"),
        segment_ms=value("segment.ms"),
        unclean_leader_election_enable=value("unclean.leader.election.enable"),
    )
