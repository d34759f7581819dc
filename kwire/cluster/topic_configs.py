"""The configuration keys of a topic: Kafka 4.3.1's, with their types, defaults, checks and broker synonyms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.cluster.config_keys import (
    INT64_MAX,
    ConfigError,
    ConfigKey,
    ConfigType,
    at_least,
    between,
    items_of,
    one_of,
    parse,
    table,
)
from kwire.log.config import LogConfig

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MAX = str(INT64_MAX)
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_T = ConfigType


def _throttled_replicas(value: list[str]) -> str:
    """`*`, or entries of partition:broker."""
    if value == ["*"]:
        return ""
    for item in value:
        partition, _, broker = item.partition(":")
        if not (partition.isdigit() and broker.isdigit()):
            return (
                f"{item} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    return ""


def _gzip_level(value: int) -> str:
    return "" if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"


TOPIC_KEYS: Mapping[str, ConfigKey] = table(
    ConfigKey(
        name="cleanup.policy",
        type=_T.LIST,
        default="delete",
        check=items_of("compact", "delete"),
        synonyms=(("log.cleanup.policy", 1),),
        doc="What happens to old segments: 'delete' drops them by age and size, 'compact' keeps the last record of "
        "each key, both together do both, and an empty list keeps everything.",
    ),
    ConfigKey(
        name="compression.gzip.level",
        type=_T.INT,
        default="-1",
        check=_gzip_level,
        synonyms=(("compression.gzip.level", 1),),
        doc="Level used when the broker itself compresses with gzip; -1 is zlib's default.",
    ),
    ConfigKey(
        name="compression.lz4.level",
        type=_T.INT,
        default="9",
        check=between(1, 17),
        synonyms=(("compression.lz4.level", 1),),
        doc="Level used when the broker itself compresses with lz4.",
    ),
    ConfigKey(
        name="compression.type",
        type=_T.STRING,
        default="producer",
        check=one_of(*_CODECS),
        synonyms=(("compression.type", 1),),
        doc="Codec of stored batches; 'producer' keeps each batch as its producer sent it.",
    ),
    ConfigKey(
        name="compression.zstd.level",
        type=_T.INT,
        default="3",
        check=between(-131072, 22),
        synonyms=(("compression.zstd.level", 1),),
        doc="Level used when the broker itself compresses with zstd.",
    ),
    ConfigKey(
        name="delete.retention.ms",
        type=_T.LONG,
        default=str(_DAY_MS),
        check=at_least(0),
        synonyms=(("log.cleaner.delete.retention.ms", 1),),
        doc="Milliseconds that a delete marker stays in a compacted topic, so that readers can still see it.",
    ),
    ConfigKey(
        name="file.delete.delay.ms",
        type=_T.LONG,
        default="60000",
        check=at_least(0),
        synonyms=(("log.segment.delete.delay.ms", 1),),
        doc="Milliseconds between taking a segment out of the log and removing its file.",
    ),
    ConfigKey(
        name="flush.messages",
        type=_T.LONG,
        default=_MAX,
        check=at_least(1),
        synonyms=(("log.flush.interval.messages", 1),),
        doc="Records after which the log is fsynced; 1 means before every acknowledgement.",
    ),
    ConfigKey(
        name="flush.ms",
        type=_T.LONG,
        default=_MAX,
        check=at_least(0),
        synonyms=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        doc="Milliseconds after which unflushed records are fsynced.",
    ),
    ConfigKey(
        name="follower.replication.throttled.replicas",
        type=_T.LIST,
        default="",
        check=_throttled_replicas,
        doc="Replicas whose copying is throttled on the follower's side, as partition:broker pairs, or * for all.",
    ),
    ConfigKey(
        name="index.interval.bytes",
        type=_T.INT,
        default="4096",
        check=at_least(0),
        synonyms=(("log.index.interval.bytes", 1),),
        doc="Bytes of log between two entries of the offset index.",
    ),
    ConfigKey(
        name="leader.replication.throttled.replicas",
        type=_T.LIST,
        default="",
        check=_throttled_replicas,
        doc="Replicas whose copying is throttled on the leader's side, as partition:broker pairs, or * for all.",
    ),
    ConfigKey(
        name="local.retention.bytes",
        type=_T.LONG,
        default="-2",
        check=at_least(-2),
        synonyms=(("log.local.retention.bytes", 1),),
        doc="Bytes kept on this broker's disk when older segments live in remote storage; kwire has no remote storage.",
    ),
    ConfigKey(
        name="local.retention.ms",
        type=_T.LONG,
        default="-2",
        check=at_least(-2),
        synonyms=(("log.local.retention.ms", 1),),
        doc="Milliseconds kept on this broker's disk when older segments live in remote storage.",
    ),
    ConfigKey(
        name="max.compaction.lag.ms",
        type=_T.LONG,
        default=_MAX,
        check=at_least(1),
        synonyms=(("log.cleaner.max.compaction.lag.ms", 1),),
        doc="Longest time in milliseconds that a record may stay uncompacted.",
    ),
    ConfigKey(
        name="max.message.bytes",
        type=_T.INT,
        default="1048588",
        check=at_least(0),
        synonyms=(("message.max.bytes", 1),),
        doc="Largest record batch in bytes, after compression, that a producer may send.",
    ),
    ConfigKey(
        name="message.timestamp.after.max.ms",
        type=_T.LONG,
        default=str(_HOUR_MS),
        check=at_least(0),
        synonyms=(("log.message.timestamp.after.max.ms", 1),),
        doc="How far in milliseconds a record's timestamp may lie in the broker's future.",
    ),
    ConfigKey(
        name="message.timestamp.before.max.ms",
        type=_T.LONG,
        default=_MAX,
        check=at_least(0),
        synonyms=(("log.message.timestamp.before.max.ms", 1),),
        doc="How far in milliseconds a record's timestamp may lie in the broker's past.",
    ),
    ConfigKey(
        name="message.timestamp.type",
        type=_T.STRING,
        default="CreateTime",
        check=one_of("CreateTime", "LogAppendTime"),
        synonyms=(("log.message.timestamp.type", 1),),
        doc="Whether records keep their producer's timestamp or get the broker's at append.",
    ),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        type=_T.DOUBLE,
        default="0.5",
        check=between(0, 1),
        synonyms=(("log.cleaner.min.cleanable.ratio", 1),),
        doc="Share of a compacted log that must be uncompacted before it is compacted again.",
    ),
    ConfigKey(
        name="min.compaction.lag.ms",
        type=_T.LONG,
        default="0",
        check=at_least(0),
        synonyms=(("log.cleaner.min.compaction.lag.ms", 1),),
        doc="Shortest time in milliseconds that a record stays uncompacted.",
    ),
    ConfigKey(
        name="min.insync.replicas",
        type=_T.INT,
        default="1",
        check=at_least(1),
        synonyms=(("min.insync.replicas", 1),),
        doc="In-sync replicas without which a produce with acks=all is refused.",
    ),
    ConfigKey(
        name="preallocate",
        type=_T.BOOLEAN,
        default="false",
        synonyms=(("log.preallocate", 1),),
        doc="Whether a new segment's file is created at its full size; kwire always grows it.",
    ),
    ConfigKey(
        name="remote.log.copy.disable",
        type=_T.BOOLEAN,
        default="false",
        doc="Whether copying to remote storage stops; kwire has no remote storage.",
    ),
    ConfigKey(
        name="remote.log.delete.on.disable",
        type=_T.BOOLEAN,
        default="false",
        doc="Whether remote segments go when remote storage is switched off.",
    ),
    ConfigKey(
        name="remote.storage.enable",
        type=_T.BOOLEAN,
        default="false",
        doc="Whether old segments move to remote storage; true is refused.",
    ),
    ConfigKey(
        name="retention.bytes",
        type=_T.LONG,
        default="-1",
        check=at_least(-1),
        synonyms=(("log.retention.bytes", 1),),
        doc="Bytes per partition above which the oldest segments are deleted; -1 is no limit.",
    ),
    ConfigKey(
        name="retention.ms",
        type=_T.LONG,
        default=str(7 * _DAY_MS),
        check=at_least(-1),
        synonyms=(("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)),
        doc="Milliseconds after which a segment is deleted; -1 is never.",
    ),
    ConfigKey(
        name="segment.bytes",
        type=_T.INT,
        default="1073741824",
        check=at_least(1024 * 1024),
        synonyms=(("log.segment.bytes", 1),),
        doc="Bytes at which a segment's file is closed and the next one begun.",
    ),
    ConfigKey(
        name="segment.index.bytes",
        type=_T.INT,
        default="10485760",
        check=at_least(4),
        synonyms=(("log.index.size.max.bytes", 1),),
        doc="Largest size in bytes of a segment's offset index; a full index rolls the segment.",
    ),
    ConfigKey(
        name="segment.jitter.ms",
        type=_T.LONG,
        default="0",
        check=at_least(0),
        synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
        doc="Largest random time in milliseconds taken off segment.ms, so that partitions do not roll together.",
    ),
    ConfigKey(
        name="segment.ms",
        type=_T.LONG,
        default=str(7 * _DAY_MS),
        check=at_least(1),
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
        doc="Milliseconds after which a segment is closed even when it is not full.",
    ),
    ConfigKey(
        name="unclean.leader.election.enable",
        type=_T.BOOLEAN,
        default="false",
        synonyms=(("unclean.leader.election.enable", 1),),
        doc="Whether a replica outside the in-sync set may lead when no other can, at the price of lost records.",
    ),
)


def check_topic_configs(values: Mapping[str, str]) -> None:
    """Raise ConfigError when a topic could not have these configurations."""
    typed = {name: parse(_known(name, value), value) for name, value in values.items()}
    if typed.get("remote.storage.enable"):
        raise ConfigError("remote.storage.enable", "true", "Tiered storage functionality is disabled in the broker")
    minimum, maximum = typed.get("min.compaction.lag.ms", 0), typed.get("max.compaction.lag.ms", INT64_MAX)
    if minimum > maximum:
        raise ConfigError(
            "min.compaction.lag.ms", minimum, f"must be at most max.compaction.lag.ms, which is {maximum}"
        )


def _known(name: str, value: str) -> ConfigKey:
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise UnknownTopicConfigError(name, value)
    return key


class UnknownTopicConfigError(ConfigError):
    """A name that is no topic configuration."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(name, value)
        self.args = (f"Unknown topic config name: {name}",)


def topic_default(key: ConfigKey, broker_values: Mapping[str, str]) -> tuple[str, str] | None:
    """The default that the broker's settings give a topic key, and the synonym it came from; None if none is set."""
    for synonym, factor in key.synonyms:
        value = broker_values.get(synonym)
        if value is not None:
            return (str(_scaled(value, factor)) if factor != 1 else value), synonym
    return None


def _scaled(value: str, factor: int) -> int:
    number = int(value)
    return number if number < 0 else min(number * factor, INT64_MAX)


def log_config(topic_values: Mapping[str, str], broker_values: Mapping[str, str]) -> LogConfig:
    """What the log of a topic with these overrides does on a broker with those settings."""

    def value(name: str) -> Any:
        key = TOPIC_KEYS[name]
        text = topic_values.get(name)
        if text is None:
            default = topic_default(key, broker_values)
            text = default[0] if default else key.default
        return parse(key, text)

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
        segment_bytes=value("segment.bytes"),
        segment_index_bytes=value("segment.index.bytes"),
        segment_jitter_ms=value("segment.jitter.ms"),
        segment_ms=value("segment.ms"),
        unclean_leader_election_enable=value("unclean.leader.election.enable"),
    )
