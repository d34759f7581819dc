"""Broker keys of the group coordinator, classic groups and committed offsets."""

from __future__ import annotations

from kwire.cluster.config_keys import ConfigKey, ConfigType, Update, Use
from kwire.cluster.configs.checks import POSITIVE, at_least, items

KEYS = (
    ConfigKey(
        name="group.coordinator.rebalance.protocols",
        type=ConfigType.LIST,
        default="classic,consumer,streams",
        check=items("consumer", "classic", "share", "streams", may_be_empty=False),
        use=Use.IGNORED,
        doc="Group protocols that are offered; the features that are served decide it here.",
    ),
    ConfigKey(
        name="group.coordinator.threads",
        type=ConfigType.INT,
        default="4",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Threads of Kafka's group coordinator; the event loop is ours.",
    ),
    ConfigKey(
        name="group.coordinator.background.threads",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Threads for long work of Kafka's group coordinator.",
    ),
    ConfigKey(
        name="group.coordinator.append.linger.ms",
        type=ConfigType.INT,
        default="-1",
        check=at_least(-1),
        use=Use.IGNORED,
        doc="How long the coordinator gathers records before it writes them; it writes at once here.",
    ),
    ConfigKey(
        name="group.coordinator.cached.buffer.max.bytes",
        type=ConfigType.INT,
        default="1048588",
        check=at_least(524288),
        use=Use.IGNORED,
        update=Update.CLUSTER_WIDE,
        doc="Largest write buffer that Kafka's group coordinator keeps for reuse.",
    ),
    ConfigKey(
        name="group.min.session.timeout.ms",
        type=ConfigType.INT,
        default="6000",
        doc="Shortest session timeout that a classic member may ask for.",
    ),
    ConfigKey(
        name="group.max.session.timeout.ms",
        type=ConfigType.INT,
        default="1800000",
        doc="Longest session timeout that a classic member may ask for.",
    ),
    ConfigKey(
        name="group.initial.rebalance.delay.ms",
        type=ConfigType.INT,
        default="0",
        kafka_default="3000",
        doc="How long an empty group's first rebalance waits for more members.",
    ),
    ConfigKey(
        name="group.max.size",
        type=ConfigType.INT,
        default="2147483647",
        check=POSITIVE,
        doc="Most members of a classic group.",
    ),
    ConfigKey(
        name="offsets.commit.timeout.ms",
        type=ConfigType.INT,
        default="5000",
        check=POSITIVE,
        doc="Longest wait of a commit for the replicas of its offset record.",
    ),
    ConfigKey(
        name="offsets.load.buffer.size",
        type=ConfigType.INT,
        default="5242880",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Bytes read at a time when offsets are loaded.",
    ),
    ConfigKey(
        name="offsets.topic.replication.factor",
        type=ConfigType.SHORT,
        default="3",
        check=POSITIVE,
        doc="Replicas of __consumer_offsets; if not set, limited to the number of brokers.",
    ),
    ConfigKey(
        name="offsets.topic.num.partitions",
        type=ConfigType.INT,
        default="50",
        check=POSITIVE,
        doc="Partitions of __consumer_offsets, fixed for good.",
    ),
    ConfigKey(
        name="offsets.topic.segment.bytes",
        type=ConfigType.INT,
        default="104857600",
        check=POSITIVE,
        doc="segment.bytes of __consumer_offsets.",
    ),
    ConfigKey(
        name="offsets.topic.compression.codec",
        type=ConfigType.INT,
        default="0",
        use=Use.IGNORED,
        doc="Codec of batches in __consumer_offsets by number; they are not compressed here.",
    ),
    ConfigKey(
        name="offset.metadata.max.bytes",
        type=ConfigType.INT,
        default="4096",
        doc="Most bytes of text that may go with a committed offset.",
    ),
    ConfigKey(
        name="offsets.retention.minutes",
        type=ConfigType.INT,
        default="10080",
        check=POSITIVE,
        doc="Minutes that a committed offset outlives its group's last member.",
    ),
    ConfigKey(
        name="offsets.retention.check.interval.ms",
        type=ConfigType.LONG,
        default="600000",
        check=POSITIVE,
        doc="Milliseconds between two searches for expired offsets.",
    ),
)
