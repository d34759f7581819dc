"""Broker keys of the group coordinator, classic groups and committed offsets."""

from __future__ import annotations

from kwire.cluster.configs.checks import POSITIVE, at_least, items
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Update, Use

KEYS = (
    ConfigKey(
        name="group.coordinator.rebalance.protocols",
        type=ConfigType.LIST,
        default="classic,consumer,streams",
        check=items("consumer", "classic", "share", "streams", may_be_empty=False),
        doc="Enabled group protocols. Members of groups of another one, such as consumer or streams, are rejected.",
    ),
    ConfigKey(
        name="group.coordinator.threads",
        type=ConfigType.INT,
        default="4",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Number of group coordinator threads. Accepted, no effect: kwire uses one event loop.",
    ),
    ConfigKey(
        name="group.coordinator.background.threads",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Number of threads for long coordinator tasks. Accepted, no effect: kwire uses one event loop.",
    ),
    ConfigKey(
        name="group.coordinator.append.linger.ms",
        type=ConfigType.INT,
        default="-1",
        check=at_least(-1),
        use=Use.IGNORED,
        doc="Milliseconds to collect records before a write. Accepted, no effect: kwire writes at once.",
    ),
    ConfigKey(
        name="group.coordinator.cached.buffer.max.bytes",
        type=ConfigType.INT,
        default="1048588",
        check=at_least(524288),
        use=Use.IGNORED,
        update=Update.CLUSTER_WIDE,
        doc="Maximum size in bytes of the write buffer that the group coordinator reuses.",
    ),
    ConfigKey(
        name="group.min.session.timeout.ms",
        type=ConfigType.INT,
        default="6000",
        doc="Minimum session timeout in milliseconds that a member of a classic group may request.",
    ),
    ConfigKey(
        name="group.max.session.timeout.ms",
        type=ConfigType.INT,
        default="1800000",
        doc="Maximum session timeout in milliseconds that a member of a classic group may request.",
    ),
    ConfigKey(
        name="group.initial.rebalance.delay.ms",
        type=ConfigType.INT,
        default="0",
        kafka_default="3000",
        doc="Milliseconds that the first rebalance of an empty group waits for more members.",
    ),
    ConfigKey(
        name="group.max.size",
        type=ConfigType.INT,
        default="2147483647",
        check=POSITIVE,
        doc="Maximum number of members of a classic group.",
    ),
    ConfigKey(
        name="offsets.commit.timeout.ms",
        type=ConfigType.INT,
        default="5000",
        check=POSITIVE,
        doc="Maximum milliseconds that an offset commit waits for the replicas of its record.",
    ),
    ConfigKey(
        name="offsets.load.buffer.size",
        type=ConfigType.INT,
        default="5242880",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Batch size in bytes for reading offsets when they are loaded.",
    ),
    ConfigKey(
        name="offsets.topic.replication.factor",
        type=ConfigType.SHORT,
        default="3",
        check=POSITIVE,
        doc="Replication factor of __consumer_offsets; if not set, at most the number of brokers.",
    ),
    ConfigKey(
        name="offsets.topic.num.partitions",
        type=ConfigType.INT,
        default="50",
        check=POSITIVE,
        doc="Number of partitions of __consumer_offsets; it cannot be changed later.",
    ),
    ConfigKey(
        name="offsets.topic.segment.bytes",
        type=ConfigType.INT,
        default="104857600",
        check=POSITIVE,
        doc="Value of segment.bytes for __consumer_offsets.",
    ),
    ConfigKey(
        name="offsets.topic.compression.codec",
        type=ConfigType.INT,
        default="0",
        use=Use.IGNORED,
        doc="Codec number for __consumer_offsets. Accepted, no effect: kwire does not compress its batches.",
    ),
    ConfigKey(
        name="offset.metadata.max.bytes",
        type=ConfigType.INT,
        default="4096",
        doc="Maximum bytes of metadata text that may be stored with a committed offset.",
    ),
    ConfigKey(
        name="offsets.retention.minutes",
        type=ConfigType.INT,
        default="10080",
        check=POSITIVE,
        doc="Minutes that a committed offset is kept after its group has lost its last member.",
    ),
    ConfigKey(
        name="offsets.retention.check.interval.ms",
        type=ConfigType.LONG,
        default="600000",
        check=POSITIVE,
        doc="Milliseconds between two checks for expired offsets.",
    ),
)
