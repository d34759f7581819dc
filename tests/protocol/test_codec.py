"""Rules of the codec, one by one."""

import traceback

import pytest

from kwire.protocol.codec import EncodeError, decode, decode_prefix, decoder, encode, encoder
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.api_versions import ApiVersionsResponse
from kwire.protocol.messages.consumer_group_records import (
    ConsumerGroupClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, decode_consumer_protocol
from kwire.protocol.messages.fetch import FetchPartitionData, FetchResponse
from kwire.protocol.messages.group_records import decode_group_key
from kwire.protocol.messages.header import RequestHeader
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.metadata_records import decode_metadata_record
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.primitives import string
from kwire.protocol.schema import field, frozen_struct, schema_of, struct


def produce_bytes(version: int) -> bytearray:
    out = bytearray()
    partition = PartitionProduceData(index=7, records=b"batch")
    encode(ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])]), version, out)
    return out


def test_records_are_a_view_of_the_frame() -> None:
    frame = produce_bytes(9)
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    records[0:1] = b"B"
    assert b"Batch" in frame


def test_detached_records_are_not_copied() -> None:
    records = bytearray(b"batch")
    partition = PartitionProduceData(index=7, records=records)
    value = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition, PartitionProduceData()])])
    out = bytearray()
    detached: list[tuple[int, bytes | bytearray | memoryview]] = []
    encode(value, 9, out, detached)
    ((position, buffer),) = detached
    assert buffer is records
    whole = bytearray()
    encode(value, 9, whole)
    assert out[:position] + records + out[position:] == whole


def test_bytes_behind_a_message_are_ignored() -> None:
    frame = produce_bytes(9)
    assert decode_prefix(ProduceRequest, 9, frame + b"tail")[1] == len(frame)
    assert decode(ProduceRequest, 9, frame + b"tail") == decode(ProduceRequest, 9, frame)


def test_a_tagged_struct_may_be_null() -> None:
    """The default is an empty struct; Apache Kafka 4.3.1 wrote the expected bytes."""
    fixed = "010101010101ffffffff01"
    struct = ConsumerGroupClassicMemberMetadata
    cases = ((None, "01000100"), (struct(), "00"), (struct(session_timeout_ms=5), "01000701000000050100"))
    for metadata, tags in cases:
        value = ConsumerGroupMemberMetadataValue(classic_member_metadata=metadata)
        out = bytearray()
        encode(value, 0, out)
        assert out.hex() == fixed + tags
        assert decode(ConsumerGroupMemberMetadataValue, 0, out) == value
    with pytest.raises(ProtocolError, match="presence"):
        decode(ConsumerGroupMemberMetadataValue, 0, bytes.fromhex(fixed + "01000702000000050100"))


def test_unknown_tags_are_skipped() -> None:
    plain = bytearray()
    encode(MetadataRequest(topics=[]), 9, plain)
    assert plain[-1] == 0
    tagged = plain[:-1] + bytes.fromhex("02" + "0003616263" + "8701" + "00")
    assert decode_prefix(MetadataRequest, 9, tagged) == (MetadataRequest(topics=[]), len(tagged))


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param("02" + "0100" + "0000", id="descending"),
        pytest.param("02" + "0000" + "0000", id="twice the same"),
        pytest.param("ff7f", id="more than can follow"),
        pytest.param("01" + "0005" + "00", id="value longer than the frame"),
        pytest.param("01" + "00" + "ffffffffff01", id="varint of 6 bytes"),
        pytest.param("01" + "00" + "ffffffff7f", id="varint of 35 bits"),
    ],
)
def test_bad_tags_are_rejected(tags: str) -> None:
    plain = bytearray()
    encode(MetadataRequest(topics=[]), 9, plain)
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 9, plain[:-1] + bytes.fromhex(tags))


def test_a_known_tag_of_a_wrong_size_is_rejected() -> None:
    """In the response, tag 1 is an int64."""
    head = "0000" + "01" + "00000000" + "01" + "01"
    assert decode(ApiVersionsResponse, 3, bytes.fromhex(head + "08" + "00" * 8)).finalized_features_epoch == 0
    with pytest.raises(ProtocolError, match="wrong size"):
        decode(ApiVersionsResponse, 3, bytes.fromhex(head + "09" + "00" * 9))


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        pytest.param(1, "fffffffe", id="array of length -2"),
        pytest.param(0, "ffffffff", id="null array where there is none"),
        pytest.param(1, "00000001" + "ffff", id="null string where there is none"),
        pytest.param(1, "00000001" + "fffe", id="string of length -2"),
        pytest.param(1, "00000001" + "0002c328", id="invalid UTF-8"),
        pytest.param(1, "7fffffff" + "0000", id="more elements than bytes"),
        pytest.param(9, "02" + "00" + "00" + "000000" + "00", id="compact null where there is none"),
        pytest.param(9, "02" + "81800400" + "00" * 9, id="string of more than 32767 bytes"),
    ],
)
def test_malformed_frames_are_rejected(version: int, frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, version, bytes.fromhex(frame))


def test_a_version_that_does_not_exist() -> None:
    with pytest.raises(ProtocolError, match="no version 99"):
        decoder(MetadataRequest, 99)
    with pytest.raises(EncodeError, match="no version 99"):
        encoder(MetadataRequest, 99)


def test_fields_that_a_version_lacks_must_have_their_default() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with pytest.raises(EncodeError, match="allow_auto_topic_creation"):
        encode(request, 3, bytearray())
    encode(request, 4, bytearray())


def test_ignorable_fields_are_dropped() -> None:
    out = bytearray()
    encode(FetchResponse(throttle_time_ms=5, error_code=1), 4, out)
    assert decode(FetchResponse, 4, out) == FetchResponse(throttle_time_ms=5)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        pytest.param(MetadataRequest(topics=None), 0, id="null"),
        pytest.param(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, id="null in a struct"),
        pytest.param(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 1, id="long string"),
        pytest.param(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 9, id="long compact string"),
        pytest.param(MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]), 9, id="lone surrogate"),
        pytest.param(InitProducerIdRequest(transaction_timeout_ms=2**31), 0, id="int32 overflow"),
    ],
)
def test_unencodable_values_raise_encode_error(value: object, version: int) -> None:
    with pytest.raises(EncodeError):
        encode(value, version, bytearray())


def test_the_client_id_keeps_its_old_length_prefix() -> None:
    out = bytearray()
    encode(RequestHeader(request_api_key=3, request_api_version=9, correlation_id=5, client_id="me"), 2, out)
    assert out.hex() == "00030009000000050002" + b"me".hex() + "00"


def test_defaults_are_not_shared_between_messages() -> None:
    first, second = FetchResponse(), FetchResponse()
    first.responses.append(None)  # type: ignore[arg-type]
    assert second.responses == []
    assert FetchPartitionData().current_leader is FetchPartitionData().current_leader
    with pytest.raises(AttributeError):
        FetchPartitionData().current_leader.leader_id = 5  # type: ignore[misc]


def test_a_traceback_shows_the_generated_line() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(MetadataRequest, 1, bytes.fromhex("fffffffe"))
    assert "topics has length" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_unknown_records() -> None:
    with pytest.raises(UnknownRecordTypeError):
        decode_metadata_record(bytes.fromhex("016300"))
    with pytest.raises(UnknownRecordTypeError):
        decode_group_key(bytes.fromhex("0063"))


@pytest.mark.parametrize("data", ["", "01", "0114", "021400" + "00", "01140500", "0114000000"])
def test_bad_metadata_frames(data: str) -> None:
    with pytest.raises(ProtocolError):
        decode_metadata_record(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "ffff00000000", "000000"])
def test_bad_consumer_protocol(data: str) -> None:
    with pytest.raises(ProtocolError):
        decode_consumer_protocol(ConsumerProtocolAssignment, bytes.fromhex(data))


def test_a_secret_is_in_no_repr() -> None:
    upsertion = ScramCredentialUpsertion(name="a", mechanism=1, salted_password=b"secret")
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    shown = "ScramCredentialUpsertion(name='a', mechanism=1, salted_password=...)"
    assert repr(request) == f"AlterUserScramCredentialsRequest(upsertions=[{shown}])"


def test_declaration_mistakes_are_found() -> None:
    @struct
    class Wrong:
        rack: string = field("0+", nullable="0+")

    with pytest.raises(TypeError, match="disagree"):
        assert schema_of(Wrong).fields

    with pytest.raises(TypeError, match="both be given"):
        field("0+", tag=1)


def test_a_default_struct_is_frozen() -> None:
    @frozen_struct
    class Leaf:
        pass

    assert hash(Leaf()) == hash(Leaf())
