"""Configuration keys of a group (KIP-848, KIP-932, KIP-1071); broker keys give their defaults."""

from __future__ import annotations

from kwire.cluster.configs.checks import COUNT, OFFSET_RESET, POSITIVE, at_least, one_of
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, table

GROUP_KEYS = table(
    (
        ConfigKey(
            name="consumer.session.timeout.ms",
            type=ConfigType.INT,
            default="45000",
            check=POSITIVE,
            synonyms=("group.consumer.session.timeout.ms",),
            doc="Milliseconds without a heartbeat after which a member of this consumer group is removed.",
        ),
        ConfigKey(
            name="consumer.heartbeat.interval.ms",
            type=ConfigType.INT,
            default="5000",
            check=POSITIVE,
            synonyms=("group.consumer.heartbeat.interval.ms",),
            doc="Heartbeat interval of the members of this consumer group, in milliseconds.",
        ),
        ConfigKey(
            name="consumer.assignment.interval.ms",
            type=ConfigType.INT,
            default="1000",
            check=COUNT,
            synonyms=("group.consumer.assignment.interval.ms",),
            doc="Minimum milliseconds between two assignments of this consumer group.",
        ),
        ConfigKey(
            name="share.session.timeout.ms",
            type=ConfigType.INT,
            default="45000",
            check=POSITIVE,
            synonyms=("group.share.session.timeout.ms",),
            doc="Milliseconds without a heartbeat after which a member of this share group is removed.",
        ),
        ConfigKey(
            name="share.heartbeat.interval.ms",
            type=ConfigType.INT,
            default="5000",
            check=POSITIVE,
            synonyms=("group.share.heartbeat.interval.ms",),
            doc="Heartbeat interval of the members of this share group, in milliseconds.",
        ),
        ConfigKey(
            name="share.record.lock.duration.ms",
            type=ConfigType.INT,
            default="30000",
            check=at_least(1000),
            synonyms=("group.share.record.lock.duration.ms",),
            doc="Milliseconds in which a consumer of this share group must acknowledge a record.",
        ),
        ConfigKey(
            name="share.delivery.count.limit",
            type=ConfigType.INT,
            default="5",
            check=at_least(2),
            synonyms=("group.share.delivery.count.limit",),
            doc="Maximum deliveries of a record to this share group.",
        ),
        ConfigKey(
            name="share.partition.max.record.locks",
            type=ConfigType.INT,
            default="2000",
            check=at_least(100),
            synonyms=("group.share.partition.max.record.locks",),
            doc="Maximum records of a share partition that are being delivered at a time.",
        ),
        ConfigKey(
            name="share.auto.offset.reset",
            type=ConfigType.STRING,
            default="latest",
            check=OFFSET_RESET,
            doc="Start offset of this share group: latest, earliest, or by_duration:<ISO 8601>.",
        ),
        ConfigKey(
            name="share.isolation.level",
            type=ConfigType.STRING,
            default="read_uncommitted",
            check=one_of("read_committed", "read_uncommitted"),
            doc="Isolation level of this share group: read_uncommitted or read_committed.",
        ),
        ConfigKey(
            name="share.renew.acknowledge.enable",
            type=ConfigType.BOOLEAN,
            default="true",
            doc="If true, consumers may renew the acquisition lock of a record.",
        ),
        ConfigKey(
            name="share.assignment.interval.ms",
            type=ConfigType.INT,
            default="1000",
            check=COUNT,
            synonyms=("group.share.assignment.interval.ms",),
            doc="Minimum milliseconds between two assignments of this share group.",
        ),
        ConfigKey(
            name="streams.session.timeout.ms",
            type=ConfigType.INT,
            default="45000",
            check=POSITIVE,
            synonyms=("group.streams.session.timeout.ms",),
            doc="Milliseconds without a heartbeat after which a member of this streams group is removed.",
        ),
        ConfigKey(
            name="streams.heartbeat.interval.ms",
            type=ConfigType.INT,
            default="5000",
            check=POSITIVE,
            synonyms=("group.streams.heartbeat.interval.ms",),
            doc="Heartbeat interval of the members of this streams group, in milliseconds.",
        ),
        ConfigKey(
            name="streams.num.standby.replicas",
            type=ConfigType.INT,
            default="0",
            check=COUNT,
            synonyms=("group.streams.num.standby.replicas",),
            doc="Number of standby replicas of each stateful task.",
        ),
        ConfigKey(
            name="streams.initial.rebalance.delay.ms",
            type=ConfigType.INT,
            default="3000",
            check=COUNT,
            synonyms=("group.streams.initial.rebalance.delay.ms",),
            doc="Milliseconds for which an empty streams group waits for more members.",
        ),
        ConfigKey(
            name="streams.assignment.interval.ms",
            type=ConfigType.INT,
            default="1000",
            check=COUNT,
            synonyms=("group.streams.assignment.interval.ms",),
            doc="Minimum milliseconds between two assignments of this streams group.",
        ),
    )
)
