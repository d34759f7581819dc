"""Versions of records that are written at each metadata.version."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.cluster.metadata.record_versions import NO_FEATURES, encode_record
from kwire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
)

VERSION_POSITION = 2
"""Position in a record's frame, after the frame's own version and the type."""


@pytest.mark.parametrize(
    ("record", "before", "since"),
    [
        (RegisterBrokerRecord(broker_id=1, incarnation_id=UUID(int=1), broker_epoch=2, log_dirs=[UUID(int=9)]), 3, 4),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1), 2, 3),
        (TopicRecord(name="t", topic_id=UUID(int=3)), 0, 0),
        (UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096), 0, 0),
        (RemoveUserScramCredentialRecord(name="u", mechanism=2), 0, 0),
    ],
)
def test_older_levels_have_older_records(record: MetadataRecord, before: int, since: int) -> None:
    for features, version in (
        ({"metadata.version": 25}, before),
        ({"metadata.version": 29}, before),
        ({"metadata.version": 30}, since),
        (NO_FEATURES, since),
    ):
        framed = encode_record(record, features)
        assert framed[VERSION_POSITION] == version
        assert decode_metadata_record(framed) == record
