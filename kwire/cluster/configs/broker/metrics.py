"""Broker keys of metrics, client telemetry and quota windows."""

from __future__ import annotations

from kwire.cluster.config_keys import ConfigKey, ConfigType, Update, Use
from kwire.cluster.configs.checks import ANY_ITEMS, POSITIVE

KEYS = (
    ConfigKey(
        name="metrics.num.samples",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Samples from which a metric is computed.",
    ),
    ConfigKey(
        name="metrics.sample.window.ms",
        type=ConfigType.LONG,
        default="30000",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Length of one sample of a metric.",
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
        doc="Which metrics are recorded: INFO, DEBUG or TRACE.",
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
        doc="How often those classes report.",
    ),
    ConfigKey(
        name="telemetry.max.bytes",
        type=ConfigType.INT,
        default="1048576",
        check=POSITIVE,
        doc="Most bytes of metrics that a client may push at a time.",
    ),
    ConfigKey(
        name="quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Windows over which the rates of clients are measured.",
    ),
    ConfigKey(
        name="quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length of such a window.",
    ),
    ConfigKey(
        name="replication.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Windows over which the rate of replication is measured.",
    ),
    ConfigKey(
        name="replication.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length of such a window.",
    ),
    ConfigKey(
        name="alter.log.dirs.replication.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Windows over which the rate of moves between directories is measured.",
    ),
    ConfigKey(
        name="alter.log.dirs.replication.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Length of such a window.",
    ),
    ConfigKey(
        name="controller.quota.window.num",
        type=ConfigType.INT,
        default="11",
        check=POSITIVE,
        doc="Windows over which the rate of metadata changes is measured.",
    ),
    ConfigKey(
        name="controller.quota.window.size.seconds",
        type=ConfigType.INT,
        default="1",
        check=POSITIVE,
        doc="Length of such a window.",
    ),
)
