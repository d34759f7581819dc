"""Versions in which metadata records are written: metadata.version limits them to what all nodes can read."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    encode_metadata_record,
)

NO_FEATURES: Mapping[str, int] = {}
"""Features of an unknown cluster: records are written in their newest versions."""
_BEFORE_CORDONED_DIRECTORIES: Mapping[type, int] = {RegisterBrokerRecord: 3, BrokerRegistrationChangeRecord: 2}
"""Record versions before 4.3-IV0, in which brokers cannot report cordoned log directories (KIP-1066)."""


def encode_record(record: MetadataRecord, features: Mapping[str, int]) -> bytes:
    """Return the framed record, in the version that a cluster with these finalised features can read."""
    level = features.get(METADATA_VERSION, METADATA_VERSION_4_3_IV0)
    version = None if level >= METADATA_VERSION_4_3_IV0 else _BEFORE_CORDONED_DIRECTORIES.get(type(record))
    return encode_metadata_record(record, version)
