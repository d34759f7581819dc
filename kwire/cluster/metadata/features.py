"""Feature levels: the levels that this software supports and that a cluster has finalised (KIP-584, KIP-1022).

metadata.version decides which metadata records may be written. transaction.version decides which values
__transaction_state has (1) and whether clients have an epoch for each transaction (2, KIP-890).
eligible.leader.replicas.version decides whether replicas that left the in-sync set may still lead (KIP-966).
group.version decides whether clients may use the consumer group protocol (KIP-848). share.version does the same for
share groups (KIP-932), and streams.version for streams groups (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.protocol.control_records import EPOCH_PER_TRANSACTION

METADATA_VERSION = "metadata.version"
METADATA_VERSION_4_0_IV3 = 25
"""Level of Apache Kafka 4.0, the lowest supported one."""
METADATA_VERSION_4_3_IV0 = 30
KRAFT_VERSION = "kraft.version"
KRAFT_VERSION_LEVEL = 1
"""Level at which voters are identified by id and directory id (KIP-853). It is stored in the quorum's own records, not
in the image."""

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = EPOCH_PER_TRANSACTION
"""Highest supported level."""

ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
ELIGIBLE_LEADER_REPLICAS_LEVEL = 1
"""Level at which replicas that left the in-sync set below min.insync.replicas may still lead (KIP-966)."""

GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""Level at which clients may use the consumer group protocol (KIP-848)."""

STREAMS_VERSION = "streams.version"
STREAMS_VERSION_LEVEL = 1
"""Level at which clients may use the streams group protocol (KIP-1071)."""

SHARE_VERSION = "share.version"
SHARE_VERSION_LEVEL = 1
"""Level at which clients may use share groups (KIP-932)."""

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_4_0_IV3, METADATA_VERSION_4_3_IV0),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, ELIGIBLE_LEADER_REPLICAS_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    SHARE_VERSION: (0, SHARE_VERSION_LEVEL),
    STREAMS_VERSION: (0, STREAMS_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
    KRAFT_VERSION: (0, KRAFT_VERSION_LEVEL),
}
"""Lowest and highest supported level by feature: those of Apache Kafka 4.3.1, but for older metadata versions."""

FORMATTED: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_4_3_IV0,
    ELIGIBLE_LEADER_REPLICAS_VERSION: ELIGIBLE_LEADER_REPLICAS_LEVEL,
    GROUP_VERSION: GROUP_VERSION_LEVEL,
    SHARE_VERSION: SHARE_VERSION_LEVEL,
    STREAMS_VERSION: STREAMS_VERSION_LEVEL,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LEVEL,
}
"""Levels that the bootstrap records of a newly formatted cluster finalise."""
