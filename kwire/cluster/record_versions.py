"""In which version a metadata record is written: the cluster's metadata.version says what all its nodes can read."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    encode_metadata_record,
)

NO_FEATURES: Mapping[str, int] = {}
"""Of a cluster of which nothing is known yet: its records are written in their newest versions."""
_BEFORE_CORDONED_DIRECTORIES: Mapping[type, int] = {RegisterBrokerRecord: 3, BrokerRegistrationChangeRecord: 2}
"""Until 4.3-IV0 brokers cannot say which log directories they have cordoned (KIP-1066)."""


def encode_record(record: MetadataRecord, features: Mapping[str, int]) -> bytes:
    """The framed record, as a cluster with these finalised features reads it."""
    level = features.get(METADATA_VERSION, METADATA_VERSION_4_3_IV0)
    version = None if level >= METADATA_VERSION_4_3_IV0 else _BEFORE_CORDONED_DIRECTORIES.get(type(record))
    return encode_metadata_record(record, version)
