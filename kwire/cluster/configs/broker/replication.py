"""Broker keys of replication and leadership."""

from __future__ import annotations

from kwire.cluster.configs.checks import COUNT, POSITIVE
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Update, Use

KEYS = (
    ConfigKey(
        name="replica.lag.time.max.ms",
        type=ConfigType.LONG,
        default="30000",
        doc="Maximum milliseconds that a follower may lag before it is removed from the in-sync set.",
    ),
    ConfigKey(
        name="replica.socket.timeout.ms",
        type=ConfigType.INT,
        default="30000",
        doc="Maximum milliseconds that a follower waits for its leader's response.",
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
        doc="Maximum bytes that a follower requests per partition.",
    ),
    ConfigKey(
        name="replica.fetch.wait.max.ms",
        type=ConfigType.INT,
        default="500",
        doc="Maximum milliseconds that a leader delays a follower's fetch.",
    ),
    ConfigKey(
        name="replica.fetch.backoff.ms",
        type=ConfigType.INT,
        default="1000",
        check=COUNT,
        doc="Maximum milliseconds that a follower waits after a failed fetch.",
    ),
    ConfigKey(
        name="replica.fetch.min.bytes",
        type=ConfigType.INT,
        default="1",
        doc="Minimum bytes that a leader waits for before it answers a follower's fetch.",
    ),
    ConfigKey(
        name="replica.fetch.response.max.bytes",
        type=ConfigType.INT,
        default="10485760",
        check=COUNT,
        doc="Maximum bytes that a follower requests in one response.",
    ),
    ConfigKey(
        name="num.replica.fetchers",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        update=Update.CLUSTER_WIDE,
        doc="Number of connections with which a follower fetches from each leader.",
    ),
    ConfigKey(
        name="num.replica.alter.log.dirs.threads",
        type=ConfigType.INT,
        default=None,
        use=Use.IGNORED,
        doc="Number of threads that move replicas between log directories.",
    ),
    ConfigKey(
        name="replica.high.watermark.checkpoint.interval.ms",
        type=ConfigType.LONG,
        default="5000",
        doc="Milliseconds between two writes of the high watermarks of partitions with several replicas.",
    ),
    ConfigKey(
        name="fetch.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1000",
        use=Use.IGNORED,
        doc="Requests between cleanups of the fetch purgatory. Accepted, no effect: kwire has no purgatory.",
    ),
    ConfigKey(
        name="producer.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1000",
        use=Use.IGNORED,
        doc="Requests between cleanups of the produce purgatory. Accepted, no effect: kwire has no purgatory.",
    ),
    ConfigKey(
        name="delete.records.purgatory.purge.interval.requests",
        type=ConfigType.INT,
        default="1",
        use=Use.IGNORED,
        doc="Requests between cleanups of the DeleteRecords purgatory. Accepted, no effect: kwire has none.",
    ),
    ConfigKey(
        name="auto.leader.rebalance.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="If true, preferred replicas become leaders again automatically.",
    ),
    ConfigKey(
        name="leader.imbalance.check.interval.seconds",
        type=ConfigType.LONG,
        default="300",
        check=POSITIVE,
        doc="Seconds between two checks of the leader balance.",
    ),
    ConfigKey(
        name="unclean.leader.election.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        update=Update.CLUSTER_WIDE,
        doc="If true, a replica outside the in-sync set may lead if no other can, which may lose records.",
    ),
    ConfigKey(
        name="unclean.leader.election.interval.ms",
        type=ConfigType.LONG,
        default="300000",
        check=POSITIVE,
        internal=True,
        doc="Milliseconds between two checks for partitions that need an unclean leader election.",
    ),
    ConfigKey(
        name="controller.socket.timeout.ms",
        type=ConfigType.INT,
        default="30000",
        use=Use.IGNORED,
        doc="Maximum milliseconds that the controller waits for a broker's response.",
    ),
    ConfigKey(
        name="follower.fetch.last.tiered.offset.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        use=Use.IGNORED,
        update=Update.CLUSTER_WIDE,
        doc="If true, a new follower starts where remote storage ends.",
    ),
)
