"""Broker keys of transactions and producer ids."""

from __future__ import annotations

from kwire.cluster.configs.checks import COUNT, POSITIVE
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Update, Use

KEYS = (
    ConfigKey(
        name="transaction.max.timeout.ms",
        type=ConfigType.INT,
        default="900000",
        check=POSITIVE,
        doc="Maximum transaction timeout in milliseconds that a producer may request.",
    ),
    ConfigKey(
        name="producer.id.expiration.ms",
        type=ConfigType.INT,
        default="86400000",
        check=POSITIVE,
        update=Update.CLUSTER_WIDE,
        doc="Milliseconds after which the state of an inactive producer id is removed.",
    ),
    ConfigKey(
        name="producer.id.expiration.check.interval.ms",
        type=ConfigType.INT,
        default="600000",
        check=POSITIVE,
        internal=True,
        doc="Milliseconds between two checks for expired producer ids.",
    ),
    ConfigKey(
        name="transaction.partition.verification.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        update=Update.CLUSTER_WIDE,
        doc="If true, a partition verifies with the coordinator before it appends a transaction's first batch.",
    ),
    ConfigKey(
        name="transaction.two.phase.commit.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        use=Use.REJECTED,
        doc="If true, transactions may join two-phase commits and exceed their timeout.",
    ),
    ConfigKey(
        name="transactional.id.expiration.ms",
        type=ConfigType.INT,
        default="604800000",
        check=POSITIVE,
        doc="Milliseconds after which an unused transactional id is removed.",
    ),
    ConfigKey(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        type=ConfigType.INT,
        default="10000",
        check=POSITIVE,
        doc="Milliseconds between two checks for timed-out transactions.",
    ),
    ConfigKey(
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        type=ConfigType.INT,
        default="3600000",
        check=POSITIVE,
        doc="Milliseconds between two checks for expired transactional ids.",
    ),
    ConfigKey(
        name="transaction.state.log.num.partitions",
        type=ConfigType.INT,
        default="50",
        check=POSITIVE,
        doc="Number of partitions of __transaction_state; it cannot be changed later.",
    ),
    ConfigKey(
        name="transaction.state.log.replication.factor",
        type=ConfigType.SHORT,
        default="3",
        check=POSITIVE,
        doc="Replication factor of __transaction_state; if not set, at most the number of brokers.",
    ),
    ConfigKey(
        name="transaction.state.log.min.isr",
        type=ConfigType.INT,
        default="2",
        check=POSITIVE,
        doc="Value of min.insync.replicas for __transaction_state; if not set, less than the number of brokers.",
    ),
    ConfigKey(
        name="transaction.state.log.segment.bytes",
        type=ConfigType.INT,
        default="104857600",
        check=POSITIVE,
        doc="Value of segment.bytes for __transaction_state.",
    ),
    ConfigKey(
        name="transaction.state.log.load.buffer.size",
        type=ConfigType.INT,
        default="5242880",
        check=POSITIVE,
        use=Use.IGNORED,
        doc="Batch size in bytes for reading transactions when they are loaded.",
    ),
    ConfigKey(
        name="add.partitions.to.txn.retry.backoff.ms",
        type=ConfigType.INT,
        default="20",
        check=POSITIVE,
        doc="Milliseconds before adding a partition is retried while the previous transaction is completing.",
    ),
    ConfigKey(
        name="add.partitions.to.txn.retry.backoff.max.ms",
        type=ConfigType.INT,
        default="100",
        check=COUNT,
        doc="Maximum milliseconds for which adding a partition is retried while a transaction is completing.",
    ),
)
