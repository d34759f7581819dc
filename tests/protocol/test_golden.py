"""Bytes that Apache Kafka 4.3.1's generated classes wrote for these values, encoded and decoded.

A Java program filled the classes of kafka-clients and kafka-metadata and printed their bytes.
"""

from typing import Any
from uuid import UUID

import pytest

from kwire.protocol.codec import decode, encode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_consumer_protocol,
    encode_consumer_protocol,
)
from kwire.protocol.messages.control_records import (
    VotersEndpoint,
    VotersKRaftVersionFeature,
    VotersRecord,
    VotersVoter,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchForgottenTopic,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kwire.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    ClientQuotaRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kwire.protocol.primitives import ZERO_UUID

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
T = TOPIC_ID.hex

MESSAGES: list[tuple[int, Any, str]] = [
    (
        18,
        FetchRequest(
            cluster_id="c",
            replica_state=FetchReplicaState(replica_id=3, replica_epoch=7),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1000,
            isolation_level=1,
            session_id=5,
            session_epoch=6,
            topics=[
                FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchPartition(
                            partition=1,
                            current_leader_epoch=2,
                            fetch_offset=3,
                            last_fetched_epoch=4,
                            log_start_offset=5,
                            partition_max_bytes=6,
                            replica_directory_id=TOPIC_ID,
                            high_watermark=9,
                        )
                    ],
                )
            ],
            forgotten_topics_data=[FetchForgottenTopic(topic_id=TOPIC_ID, partitions=[1, 2])],
            rack_id="r",
        ),
        (
            f"000001f400000001000003e801000000050000000602{T}0200000001000000020000000000000003000000040000000000000005"
            f"00000006020010{T}010800000000000000090002{T}0300000001000000020002720200020263010d00000003000000000000000700"
        ),
    ),
    (
        17,
        FetchResponse(
            session_id=9,
            responses=[
                FetchableTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchPartitionData(
                            partition_index=1,
                            error_code=6,
                            high_watermark=10,
                            last_stable_offset=9,
                            log_start_offset=1,
                            diverging_epoch=FetchEpochEndOffset(epoch=3, end_offset=8),
                            current_leader=FetchLeaderIdAndEpoch(leader_id=2, leader_epoch=4),
                            aborted_transactions=[AbortedTransaction(producer_id=11, first_offset=5)],
                            records=b"",
                        )
                    ],
                )
            ],
            node_endpoints=[FetchNodeEndpoint(node_id=2, host="h", port=9092)],
        ),
        (
            f"0000000000000000000902{T}02000000010006000000000000000a0000000000000009000000000000000102000000000000000b0000"
            "00000000000500ffffffff0102000d0000000300000000000000080001090000000200000004000001000d0200000002026800002384"
            "0000"
        ),
    ),
    (
        0,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name="t")],
            response_partition_limit=5,
            cursor=DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=2),
        ),
        "0202740000000005010274000000020000",
    ),
    (
        0,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name="t")], response_partition_limit=5, cursor=None
        ),
        "0202740000000005ff00",
    ),
    (4, MetadataRequest(topics=None, allow_auto_topic_creation=False), "ffffffff00"),
    (
        0,
        VotersRecord(
            voters=[
                VotersVoter(
                    voter_id=1,
                    voter_directory_id=TOPIC_ID,
                    endpoints=[VotersEndpoint(name="C", host="h", port=9093)],
                    kraft_version_feature=VotersKRaftVersionFeature(max_supported_version=1),
                )
            ]
        ),
        f"00000200000001{T}020243026823850000000001000000",
    ),
]

METADATA_RECORDS: list[tuple[int, MetadataRecord, str]] = [
    (
        2,
        PartitionRecord(
            partition_id=1,
            topic_id=TOPIC_ID,
            replicas=[1, 2],
            isr=[1],
            leader=1,
            leader_epoch=3,
            partition_epoch=4,
            directories=[TOPIC_ID, ZERO_UUID],
            eligible_leader_replicas=[2],
        ),
        f"01030200000001{T}0300000001000000020200000001010100000001000000030000000403{T}{'00' * 16}0101050200000002",
    ),
    (
        2,
        PartitionChangeRecord(
            partition_id=1, topic_id=TOPIC_ID, isr=[2], leader=2, directories=[TOPIC_ID], last_known_elr=[1]
        ),
        f"01050200000001{T}040005020000000201040000000207050200000001081102{T}",
    ),
    (
        3,
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=TOPIC_ID,
            broker_epoch=12,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=65535)],
            rack=None,
            fenced=True,
            log_dirs=[TOPIC_ID],
        ),
        f"0100030000000100{T}000000000000000c020a504c41494e544558540268ffff0000000100010001001102{T}",
    ),
    (0, NoOpRecord(), "01140000"),
]

GROUP_RECORDS: list[tuple[int, Any, GroupValue, str]] = [
    (
        4,
        OffsetCommitKey(),
        OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=1000, topic_id=TOPIC_ID),
        f"0004000000000000000500000002026d00000000000003e8010010{T}",
    ),
    (
        1,
        OffsetCommitKey(),
        OffsetCommitValue(offset=5, metadata="m", commit_timestamp=1000, expire_timestamp=2000),
        "0001000000000000000500016d00000000000003e800000000000007d0",
    ),
    (
        3,
        GroupMetadataKey(),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="l",
            current_state_timestamp=7,
            members=[
                MemberMetadata(
                    member_id="l",
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=1,
                    session_timeout=2,
                    subscription=b"\x01",
                )
            ],
        ),
        (
            "00030008636f6e73756d657200000001000572616e676500016c00000000000000070000000100016cffff00016300022f68000000010000"
            "0002000000010100000000"
        ),
    ),
]


@pytest.mark.parametrize(("version", "value", "expected"), MESSAGES, ids=lambda case: type(case).__name__)
def test_messages(version: int, value: Any, expected: str) -> None:
    out = bytearray()
    encode(value, version, out)
    assert out.hex() == expected
    assert decode(type(value), version, out) == value


@pytest.mark.parametrize(("version", "value", "expected"), METADATA_RECORDS, ids=lambda case: type(case).__name__)
def test_metadata_records(version: int, value: MetadataRecord, expected: str) -> None:
    assert encode_metadata_record(value, version).hex() == expected
    assert decode_metadata_record(bytes.fromhex(expected)) == value


def test_a_quota_record_has_a_float() -> None:
    data = bytes.fromhex("010e000205757365720000026b3fe00000000000000000")
    record = decode_metadata_record(data)
    assert isinstance(record, ClientQuotaRecord)
    assert (record.value, record.entity[0].entity_name) == (0.5, None)
    assert encode_metadata_record(record) == data


@pytest.mark.parametrize(("version", "key", "value", "expected"), GROUP_RECORDS, ids=lambda case: type(case).__name__)
def test_group_values(version: int, key: Any, value: GroupValue, expected: str) -> None:
    """Kafka 4.3.1 chooses these versions, and the encoder must choose the same by default."""
    assert encode_group_value(value).hex() == encode_group_value(value, version).hex() == expected
    assert decode_group_value(key, bytes.fromhex(expected)) == value


def test_group_keys() -> None:
    """Kafka's class wrote all bytes but the first two, which are the record type."""
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_group_key(key).hex() == "0001" + "00016700017400000003"
    assert decode_group_key(encode_group_key(key)) == key
    assert decode_group_key(bytes.fromhex("0002000167")) == GroupMetadataKey(group="g")


def test_a_consumers_subscription() -> None:
    value = ConsumerProtocolSubscription(topics=["t"], user_data=None, generation_id=4, rack_id="r")
    data = bytes.fromhex("000300000001000174ffffffff0000000000000004000172")
    assert encode_consumer_protocol(value) == data
    assert decode_consumer_protocol(ConsumerProtocolSubscription, data) == value
    newer = b"\x00\x09" + data[2:] + b"whatever version 9 adds"
    assert decode_consumer_protocol(ConsumerProtocolSubscription, newer) == value
