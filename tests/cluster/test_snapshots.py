"""Snapshots of the metadata log: they restore the same image, and invalid files are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.image_records import records_of
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.cluster.raft import snapshots
from kwire.cluster.raft.control_batches import decode_control, kraft_version
from kwire.cluster.raft.snapshots import decode_snapshot, encode_snapshot
from kwire.log.disk import RealDisk
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import UnknownRecordTypeError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.records import InvalidRecordsError, Record, encode_batch, iterate_headers

TOPIC_ID, DIRECTORY, INCARNATION = UUID(int=7), UUID(int=8), UUID(int=9)
NOW_MS = 1_700_000_000_000


def everything() -> MetadataImage:
    """Return an image with every kind of entry and no default values."""
    batch: list[Any] = [
        records.FeatureLevelRecord(name="transaction.version", feature_level=2),
        records.FeatureLevelRecord(name="metadata.version", feature_level=30),
        records.RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=7,
            incarnation_id=INCARNATION,
            end_points=[records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
            features=[
                records.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
            ],
            rack="r",
            fenced=False,
            in_controlled_shutdown=True,
            log_dirs=[DIRECTORY],
            cordoned_log_dirs=[DIRECTORY],
        ),
        records.RegisterControllerRecord(
            controller_id=4,
            incarnation_id=INCARNATION,
            end_points=[records.ControllerEndpoint(name="CONTROLLER", host="c", port=1, security_protocol=1)],
            features=[
                records.ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)
            ],
        ),
        records.TopicRecord(name="t", topic_id=TOPIC_ID),
        *(
            records.PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[1, 2, 3],
                isr=[1],
                removing_replicas=[2],
                adding_replicas=[3],
                leader=1,
                leader_recovery_state=1,
                leader_epoch=3,
                partition_epoch=4,
                directories=[DIRECTORY] * 3,
                eligible_leader_replicas=[2],
                last_known_elr=[3],
            )
            for index in range(3000)
        ),
        records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
        records.ClientQuotaRecord(
            entity=[records.ClientQuotaEntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=1.5,
        ),
        records.ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=2000),
        *(
            records.UserScramCredentialRecord(
                name="alice", mechanism=mechanism, salt=b"salt", stored_key=b"s", server_key=b"k", iterations=8192
            )
            for mechanism in (1, 2)
        ),
    ]
    return MetadataImage().apply(batch, offset=41, epoch=3)


def encoded(image: MetadataImage, **changes: Any) -> bytes:
    fields: dict[str, Any] = {"epoch": 3, "now_ms": NOW_MS, "last_contained_timestamp_ms": NOW_MS - 5}
    return b"".join(encode_snapshot(records_of(image), **(fields | changes)))


def test_a_snapshot_gives_the_same_image_again() -> None:
    image = everything()
    voter = Voter(key=ReplicaKey(1, DIRECTORY), endpoints=(Listener("CONTROLLER", "h", 9093),), max_kraft_version=1)
    voters = [kraft_version(), (ControlRecordType.KRAFT_VOTERS, VoterSet([voter]).to_record())]
    content = encoded(image, controls=voters)
    snapshot = decode_snapshot(content)
    assert MetadataImage().apply(snapshot.records, offset=41, epoch=3) == image
    assert list(snapshot.controls) == voters
    assert snapshot.last_contained_timestamp_ms == NOW_MS - 5


def test_a_snapshot_has_consecutive_batches_of_bounded_size() -> None:
    headers = [header for _, header in iterate_headers(encoded(everything()))]
    assert [header.is_control for header in headers] == [True, False, False, False, True]
    assert max(header.record_count for header in headers) == snapshots.BATCH_RECORDS_MAX
    assert {header.partition_leader_epoch for header in headers} == {3}
    ends = [0, *(header.next_offset for header in headers)]
    assert [header.base_offset for header in headers] == ends[:-1]


def test_an_empty_image_has_a_snapshot_too() -> None:
    snapshot = decode_snapshot(encoded(MetadataImage()))
    assert (list(snapshot.records), list(snapshot.controls)) == ([], [])


def test_features_come_first_and_the_metadata_version_before_them() -> None:
    first, second, *rest = records_of(everything())
    assert (first.name, second.name) == ("metadata.version", "transaction.version")
    assert not any(isinstance(record, records.FeatureLevelRecord) for record in rest)


@pytest.mark.parametrize("cut", [0, 1, 60, 100, -1])
def test_a_truncated_snapshot_is_rejected(cut: int) -> None:
    with pytest.raises(InvalidRecordsError):
        decode_snapshot(encoded(everything())[:cut])


def test_a_snapshot_without_its_header_or_footer_is_rejected() -> None:
    content = encoded(everything())
    positions = [position for position, _ in iterate_headers(content)]
    for part in (content[: positions[-1]], content[positions[1] :], content[positions[1] : positions[-1]]):
        with pytest.raises(InvalidRecordsError):
            decode_snapshot(part)


def test_a_flipped_bit_is_detected() -> None:
    content = bytearray(encoded(everything()))
    content[len(content) // 2] ^= 4
    with pytest.raises(InvalidRecordsError):
        decode_snapshot(bytes(content))


def test_a_record_of_an_unknown_type_is_rejected() -> None:
    header, *_, footer = encode_snapshot([], epoch=3, now_ms=NOW_MS, last_contained_timestamp_ms=0)
    unknown = bytes(encode_batch([Record(value=b"\x01\x7f\x00")], base_offset=1))
    with pytest.raises(UnknownRecordTypeError):
        decode_snapshot(header + unknown + footer)


def test_names_are_kafkas() -> None:
    snapshot_id = OffsetAndEpoch(42, 3)
    name = snapshots.file_name(snapshot_id)
    assert name == "00000000000000000042-0000000003.checkpoint"
    assert snapshots.parse_file_name(name) == snapshot_id
    for other in (f"{name}.part", f"{name}.deleted", f"x{name}", "00000000000000000042.log", name[1:]):
        assert snapshots.parse_file_name(other) is None


def test_whole_snapshots_of_a_directory_in_order(tmp_path: Path) -> None:
    for snapshot_id in (OffsetAndEpoch(42, 3), OffsetAndEpoch(7, 9), OffsetAndEpoch(42, 2)):
        (tmp_path / snapshots.file_name(snapshot_id)).write_bytes(b"")
    (tmp_path / f"{snapshots.file_name(OffsetAndEpoch(50, 3))}.part").write_bytes(b"")
    found = snapshots.snapshots_in(RealDisk(), str(tmp_path))
    assert found == [OffsetAndEpoch(7, 9), OffsetAndEpoch(42, 2), OffsetAndEpoch(42, 3)]


def test_a_record_without_a_value_is_skipped() -> None:
    whole = encoded(MetadataImage())
    *_, (position, footer) = iterate_headers(whole)
    empty = encode_batch([Record(key=b"k", value=None, timestamp=0)], base_offset=footer.base_offset)
    found = decode_snapshot(whole[:position] + bytes(empty) + whole[position:])
    assert found.records == decode_snapshot(whole).records


def test_a_control_record_that_is_not_the_quorums_is_rejected() -> None:
    marker = Record(key=b"\x00\x00\x00\x01", value=b"\x00" * 6, timestamp=0)
    with pytest.raises(UnknownRecordTypeError, match="unknown control record type 1"):
        decode_control(marker)
