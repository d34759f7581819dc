"""Broker keys of replication and leadership."""

from __future__ import annotations

from kwire.cluster.config_keys import ConfigKey, ConfigType, Update, Use
from kwire.cluster.configs.checks import COUNT, POSITIVE

KEYS = (
    ConfigKey(
        name="replica.lag.time.max.ms",
        type=ConfigType.LONG,
        default="30000",
        doc="How long a follower may lag before it leaves the in-sync set.",
    ),
    ConfigKey(
        name="replica.socket.timeout.ms",
        type=ConfigType.INT,
        default="30000",
        doc="Longest wait of a follower for its leader's answer.",
    ),
    ConfigKey(
        name="replica.socket.receive.buffer.bytes",
        type=ConfigType.INT,
        default="65536",
        use=Use.IGNORED,
        doc="SO_RCVBUF of connections to leaders.",
    ),
    ConfigKey(
        name="replica.fetch.max.bytes",
        type=ConfigType.INT,
        default="1048576",
        check=COUNT,
        doc="Bytes that a follower asks for per partition.",
    ),
    ConfigKey(
        name="replica.fetch.wait.max.ms",
        type=ConfigType.INT,
        default="500",
        doc="Longest wait of a follower's fetch at its leader.",
    ),
    ConfigKey(
        name="replica.fetch.backoff.ms",
        type=ConfigType.INT,
        default="1000",
        check=COUNT,
        doc="Pause of a follower after a failed fetch.",
    ),
    ConfigKey(
        name="replica.fetch.min.bytes",
        type=ConfigType.INT,
        default="1",
        doc="Bytes that a follower's fetch waits for.",
    ),
    ConfigKey(
        name="replica.fetch.response.max.bytes",
        type=ConfigType.INT,
        default="10485760",
        check=COUNT,
        doc="Bytes that a follower asks for in one answer.",
    ),
    ConfigKey(
        name="num.replica.fetchers",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        update=Update.CLUSTER_WIDE,
        doc="Connections with which a follower fetches from each leader.",
    ),
    ConfigKey(
        name="num.replica.alter.log.dirs.threads",
        type=ConfigType.INT,
        default=None,
        use=Use.IGNORED,
        doc="Threads that move replicas between directories.",
    ),
    ConfigKey(
        name="replica.high.watermark.checkpoint.interval.ms",
        type=ConfigType.LONG,
        default="5000",
        doc="Milliseconds between two writes of the high watermarks, where partitions have other replicas.",
    ),
    ConfigKey(
        name="fetch.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1000",
        use=Use.IGNORED,
        doc="How often Kafka tidies its list of waiting fetches; finished waits leave nothing behind here.",
    ),
    ConfigKey(
        name="producer.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1000",
        use=Use.IGNORED,
        doc="How often Kafka tidies its list of waiting produces; finished waits leave nothing behind here.",
    ),
    ConfigKey(
        name="delete.records.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1",
        use=Use.IGNORED,
        doc="How often Kafka tidies its list of waiting DeleteRecords; finished waits leave nothing behind here.",
    ),
    ConfigKey(
        name="auto.leader.rebalance.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether leadership returns to preferred replicas by itself.",
    ),
    ConfigKey(
        name="leader.imbalance.check.interval.seconds",
        type=ConfigType.LONG,
        default="300",
        check=POSITIVE,
        doc="How often the balance of leaders is looked at.",
    ),
    ConfigKey(
        name="unclean.leader.election.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        update=Update.CLUSTER_WIDE,
        doc="Whether a replica outside the in-sync set may lead when no other can, losing records.",
    ),
    ConfigKey(
        name="unclean.leader.election.interval.ms",
        type=ConfigType.LONG,
        default="300000",
        check=POSITIVE,
        internal=True,
        doc="How often partitions without a leader are offered an unclean election.",
    ),
    ConfigKey(
        name="controller.socket.timeout.ms",
        type=ConfigType.INT,
        default="30000",
        use=Use.IGNORED,
        doc="Longest wait of the controller for a broker's answer.",
    ),
    ConfigKey(
        name="follower.fetch.last.tiered.offset.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        use=Use.IGNORED,
        update=Update.CLUSTER_WIDE,
        doc="Whether a new follower begins where remote storage ends.",
    ),
)
