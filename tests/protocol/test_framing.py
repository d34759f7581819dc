import pytest

from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.messages.api_versions import ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchPartitionData, FetchResponse

KAFKA_FETCH_V18 = bytes.fromhex("000100120000002a0002636c00")  # written by Apache Kafka 4.3.1's RequestHeader
KAFKA_FETCH_V4 = bytes.fromhex("000100040000002a0002636c")


@pytest.mark.parametrize(("frame", "version"), [(KAFKA_FETCH_V18, 18), (KAFKA_FETCH_V4, 4)])
def test_headers_of_kafka(frame: bytes, version: int) -> None:
    header = parse_request_header(frame + b"body")
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (1, version, 42, "cl")
    assert header.body_position == len(frame)


def test_a_null_client_id_and_a_tag() -> None:
    header = parse_request_header(bytes.fromhex("00010012" + "00000001" + "ffff" + "01" + "050161" + "99"))
    assert (header.client_id, header.body_position) == (None, 14)


def test_a_version_newer_than_any_known_still_has_a_header() -> None:
    """A client newer than the broker sends ApiVersions in its own newest version first (KIP-511)."""
    header = parse_request_header(bytes.fromhex("00120063" + "00000001" + "000161" + "00"))
    assert (header.api_key, header.api_version, header.client_id, header.body_position) == (18, 99, "a", 12)


@pytest.mark.parametrize("size", range(len(KAFKA_FETCH_V18)))
def test_a_truncated_header_is_rejected(size: int) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(KAFKA_FETCH_V18[:size])


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param("7fff0000" + "00000001" + "0000", id="unknown API"),
        pytest.param("00010004" + "00000001" + "fffe", id="client id of length -2"),
        pytest.param("00010004" + "00000001" + "0005" + "6161", id="client id longer than the frame"),
        pytest.param("00010004" + "00000001" + "0001" + "ff", id="client id is no UTF-8"),
        pytest.param("00010012" + "00000001" + "0000" + "7f", id="more tags than bytes"),
    ],
)
def test_bad_headers_are_rejected(frame: str) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(bytes.fromhex(frame))


def test_a_response_without_records_is_one_buffer() -> None:
    (frame,) = encode_response(7, FetchResponse(session_id=3), 12)
    assert bytes(frame) == bytes.fromhex("00000011" + "00000007" + "00" + "00000000" + "0000" + "00000003" + "0100")
    assert decode(FetchResponse, 12, bytes(frame), 9) == FetchResponse(session_id=3)


def test_an_inflexible_response_has_no_tags_in_its_header() -> None:
    (frame,) = encode_response(7, FetchResponse(), 11)
    assert decode(FetchResponse, 11, bytes(frame), 8) == FetchResponse()


def test_an_api_versions_response_never_has_tags_in_its_header() -> None:
    (frame,) = encode_response(7, ApiVersionsResponse(error_code=35), 3)
    assert decode(ApiVersionsResponse, 3, bytes(frame), 8) == ApiVersionsResponse(error_code=35)
    assert int.from_bytes(frame[:4]) == len(frame) - 4


def test_records_go_out_as_they_are() -> None:
    first, second = bytearray(b"first batch"), memoryview(b"second batch")
    partitions = [FetchPartitionData(records=data) for data in (first, b"", second, None)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    buffers = encode_response(7, response, 12)
    assert sum(buffer is first or buffer is second for buffer in buffers) == 2
    assert all(len(buffer) for buffer in buffers)
    whole = b"".join(buffers)
    assert int.from_bytes(whole[:4]) == len(whole) - 4
    body = bytearray()
    encode(response, 12, body)
    assert whole[9:] == body
