"""Feature levels: what this software supports and what a cluster has finalised (KIP-584, KIP-1022).

metadata.version decides which metadata records may be written, transaction.version which values __transaction_state
gets (1) and whether clients have an epoch for each transaction (2, KIP-890), eligible.leader.replicas.version whether
replicas that left the in-sync set may still lead (KIP-966). The other features of Kafka 4.3.1 (group.version,
share.version, streams.version) come into these tables with what they stand for: until then they are neither supported
nor finalised, and clients fall back to what is there.
"""

from __future__ import annotations

from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
METADATA_VERSION_4_0_IV3 = 25
"""The level of Apache Kafka 4.0, the lowest that is supported."""
METADATA_VERSION_4_3_IV0 = 30
KRAFT_VERSION = "kraft.version"
KRAFT_VERSION_LEVEL = 1
"""Voters are known by id and directory id (KIP-853); kept in the voters' own records, not in the image."""

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2

ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
ELIGIBLE_LEADER_REPLICAS_LEVEL = 1
"""From level 1 on, replicas that left the in-sync set below min.insync.replicas may still lead (KIP-966)."""

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_4_0_IV3, METADATA_VERSION_4_3_IV0),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, ELIGIBLE_LEADER_REPLICAS_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
    KRAFT_VERSION: (0, KRAFT_VERSION_LEVEL),
}
"""Lowest and highest level by feature."""

REGISTERED: Mapping[str, tuple[int, int]] = {
    **SUPPORTED,
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""What a node can live with in a cluster that another software has formatted: these stand for APIs that it does not
serve, and change nothing of what it stores."""

FORMATTED: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_4_3_IV0,
    ELIGIBLE_LEADER_REPLICAS_VERSION: ELIGIBLE_LEADER_REPLICAS_LEVEL,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LEVEL,
}
"""What a freshly formatted cluster finalises by its bootstrap records."""
