"""Broker keys of transactions and producer ids."""

from __future__ import annotations

from kwire.cluster.config_keys import ConfigKey, ConfigType, Update, Use
from kwire.cluster.configs.checks import COUNT, POSITIVE

KEYS = (
    ConfigKey(
        name="transaction.max.timeout.ms",
        type=ConfigType.INT,
        default="900000",
        check=POSITIVE,
        doc="Longest transaction timeout that a producer may ask for.",
    ),
    ConfigKey(
        name="producer.id.expiration.ms",
        type=ConfigType.INT,
        default="86400000",
        check=POSITIVE,
        update=Update.CLUSTER_WIDE,
        doc="Milliseconds after which the sequence state of a silent producer is forgotten.",
    ),
    ConfigKey(
        name="producer.id.expiration.check.interval.ms",
        type=ConfigType.INT,
        default="600000",
        check=POSITIVE,
        internal=True,
        doc="Milliseconds between two searches for expired producers.",
    ),
    ConfigKey(
        name="transaction.partition.verification.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        update=Update.CLUSTER_WIDE,
        doc="Whether a partition asks the coordinator before it takes a transaction's first batch.",
    ),
    ConfigKey(
        name="transaction.two.phase.commit.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        use=Use.REFUSED,
        doc="Whether transactions may take part in two-phase commits and outlive their timeout.",
    ),
    ConfigKey(
        name="transactional.id.expiration.ms",
        type=ConfigType.INT,
        default="604800000",
        check=POSITIVE,
        doc="Milliseconds after which an unused transactional id is forgotten.",
    ),
    ConfigKey(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        type=ConfigType.INT,
        default="10000",
        check=POSITIVE,
        doc="How often transactions over their timeout are looked for.",
    ),
    ConfigKey(
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        type=ConfigType.INT,
        default="3600000",
        check=POSITIVE,
        doc="How often expired transactional ids are looked for.",
    ),
    ConfigKey(
        name="transaction.state.log.num.partitions",
        type=ConfigType.INT,
        default="50",
        check=POSITIVE,
        doc="Partitions of __transaction_state, fixed for good.",
    ),
    ConfigKey(
        name="transaction.state.log.replication.factor",
        type=ConfigType.SHORT,
        default="3",
        check=POSITIVE,
        doc="Replicas of __transaction_state; if not set, limited to the number of brokers.",
    ),
    ConfigKey(
        name="transaction.state.log.min.isr",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        doc="min.insync.replicas of __transaction_state; if not set, at most one less than the brokers.",
    ),
    ConfigKey(
        name="transaction.state.log.segment.bytes",
        type=ConfigType.INT,
        default="104857600",
        check=POSITIVE,
        doc="segment.bytes of __transaction_state.",
    ),
    ConfigKey(
        name="transaction.state.log.load.buffer.size",
        type=ConfigType.INT,
        default="5242880",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Bytes read at a time when transactions are loaded.",
    ),
    ConfigKey(
        name="add.partitions.to.txn.retry.backoff.ms",
        type=ConfigType.INT,
        default="20",
        check=POSITIVE,
        doc="Pause before a partition is added again to a transaction whose predecessor is still ending.",
    ),
    ConfigKey(
        name="add.partitions.to.txn.retry.backoff.max.ms",
        type=ConfigType.INT,
        default="100",
        check=COUNT,
        doc="How long it is tried to add a partition while the transaction before is still ending.",
    ),
)
