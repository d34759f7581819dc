"""Broker keys of metrics, client telemetry and quota windows."""

from __future__ import annotations

from kwire.cluster.configs.checks import ANY_ITEMS, POSITIVE
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Update, Use

KEYS = (
    ConfigKey(
        name="metrics.num.samples",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Number of samples from which a metric is computed.",
    ),
    ConfigKey(
        name="metrics.sample.window.ms",
        type=ConfigType.LONG,
        default="30000",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Length in milliseconds of one sample of a metric.",
    ),
    ConfigKey(
        name="metric.reporters",
        type=ConfigType.LIST,
        default="org.apache.kafka.common.metrics.JmxReporter",
        check=ANY_ITEMS,
        use=Use.IGNORED,
        update=Update.CLUSTER_WIDE,
        doc="Java classes that report metrics.",
    ),
    ConfigKey(
        name="metrics.recording.level",
        type=ConfigType.STRING,
        default="INFO",
        use=Use.IGNORED,
        doc="Level of the recorded metrics: INFO, DEBUG or TRACE.",
    ),
    ConfigKey(
        name="kafka.metrics.reporters",
        type=ConfigType.LIST,
        default="",
        check=ANY_ITEMS,
        use=Use.IGNORED,
        doc="Java classes that report Kafka's older metrics.",
    ),
    ConfigKey(
        name="kafka.metrics.polling.interval.secs",
        type=ConfigType.INT,
        default="10",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Interval in seconds at which kafka.metrics.reporters report.",
    ),
    ConfigKey(
        name="telemetry.max.bytes",
        type=ConfigType.INT,
        default="1048576",
        check=POSITIVE,
        doc="Maximum bytes of metrics in one push of a client.",
    ),
    ConfigKey(
        name="quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Number of windows over which the rates of clients are measured.",
    ),
    ConfigKey(
        name="quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length in seconds of a window over which the rates of clients are measured.",
    ),
    ConfigKey(
        name="replication.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Number of windows over which the replication rate is measured.",
    ),
    ConfigKey(
        name="replication.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length in seconds of a window over which the replication rate is measured.",
    ),
    ConfigKey(
        name="alter.log.dirs.replication.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Number of windows over which the rate of moves between log directories is measured.",
    ),
    ConfigKey(
        name="alter.log.dirs.replication.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Length in seconds of a window over which the rate of moves between directories is measured.",
    ),
    ConfigKey(
        name="controller.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Number of windows over which the rate of metadata changes is measured.",
    ),
    ConfigKey(
        name="controller.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length in seconds of a window over which the rate of metadata changes is measured.",
    ),
)
