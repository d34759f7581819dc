"""Frames and their parts before a request is understood (RELIABILITY.md, section 4.1)."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from kwire.cli.log_lines import LINES_PER_SECOND, LineLimit, OneLineFormatter
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.schema import Array, schema_of
from kwire.protocol.wire import EARLY_TAGS_MAX, TAGS_MAX
from kwire.server.network.memory.memory_return import resident_bytes
from kwire.server.settings.config import make_config
from tests.security.test_exploits import tagged, varint
from tests.support.raw_client import RawClient, sized
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
MIB = 1024 * 1024
REQUEST_BYTES_MAX = 104_857_600
EARLY = (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
"""Requests that are served before a client authenticates."""


# --- row 2


def test_row_02_a_declared_size_allocates_nothing_until_its_bytes_arrive(broker: RunningBroker) -> None:
    clients = [broker.client() for _ in range(30)]
    before = resident_bytes()
    for client in clients:
        client.send_bytes(struct.pack(">i", REQUEST_BYTES_MAX) + bytes(1000))
    eventually(lambda: broker.memory_used == len(clients) * 1004, "the bytes that arrived, and no others, to count")
    assert resident_bytes() - before < 8 * MIB
    for client in clients:
        client.send_bytes(bytes(100_000))
    eventually(lambda: broker.memory_used == len(clients) * 101_004, "the next bytes to count")
    assert resident_bytes() - before < 2 * len(clients) * 101_004 + 8 * MIB
    for client in clients:
        client.close()
    eventually(lambda: broker.memory_used == 0, "the memory to be released")


def test_row_02_the_memory_of_requests_is_bounded_by_default() -> None:
    assert make_config({}).parsed["queued.max.request.bytes"] == 128 * MIB
    larger = make_config({"socket.request.max.bytes": str(200 * MIB)})
    assert larger.parsed["queued.max.request.bytes"] == 200 * MIB, "one request must fit"


# --- row 8


def header(api_key: int, version: int, tags: bytes) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1) + tags


def metadata_frame(count: int) -> bytes:
    """Return a Metadata request for no topic whose header and body each have so many unknown tagged fields."""
    return sized(header(3, 12, tagged(count)) + b"\x01\x00\x00" + tagged(count))


@pytest.mark.parametrize("count", [0, 1, EARLY_TAGS_MAX, EARLY_TAGS_MAX + 1, TAGS_MAX])
def test_row_08_unknown_tagged_fields_are_skipped(client: RawClient, count: int) -> None:
    client.send_bytes(metadata_frame(count))
    answer = client.receive_frame()
    assert struct.unpack_from(">i", answer) == (1,)


@pytest.mark.parametrize(
    "tags",
    [
        tagged(TAGS_MAX + 1),
        varint(1000) + b"\xe8\x07\x00" * 10,
        b"\x02\x05\x00\x05\x00",
        b"\x02\x07\x00\x03\x00",
        b"\x01\x05\xff\xff\x03",
    ],
    ids=["one above the cap", "more than half of the bytes", "a tag twice", "not ascending", "longer than the frame"],
)
def test_row_08_invalid_tagged_fields_close_the_connection(broker: RunningBroker, tags: bytes) -> None:
    for frame in (header(3, 12, tags) + b"\x01\x00\x00\x00", header(3, 12, b"\0") + b"\x01\x00\x00" + tags):
        with broker.client() as hostile:
            hostile.send_bytes(sized(frame))
            assert hostile.is_closed()


@pytest.mark.parametrize("request_", EARLY)
def test_row_08_early_requests_have_a_lower_cap(request_: type) -> None:
    assert (schema_of(request_).tags_max, EARLY_TAGS_MAX, TAGS_MAX) == (64, 64, 1024)


# --- row 9


@pytest.mark.parametrize("request_", EARLY)
def test_row_09_early_requests_have_no_arrays(request_: type) -> None:
    """So the cap of elements before authentication is 0, which is below the 256 that are allowed."""
    assert not [spec.name for spec in schema_of(request_).fields if isinstance(spec.type, Array)]


# --- row 10


INVALID = {
    "varint of 6 bytes": header(3, 12, b"\0") + b"\xff\xff\xff\xff\xff\x01",
    "varint of 33 bits": header(3, 12, b"\0") + b"\xff\xff\xff\xff\x7f",
    "varint without end": header(3, 12, b"\0") + b"\xff" * 3,
    "negative array": header(3, 1, b"") + struct.pack(">i", -2),
    "negative string": header(3, 1, b"") + struct.pack(">ih", 1, -2),
    "null string": header(3, 1, b"") + struct.pack(">ih", 1, -1),
    "negative client id": struct.pack(">hhih", 18, 0, 1, -2),
    "client id that is no UTF-8": struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
    "name that is no UTF-8": header(3, 1, b"") + struct.pack(">ih", 1, 2) + b"\xc3\x28",
    "unknown API": struct.pack(">hhih", 999, 0, 1, -1),
    "negative API": struct.pack(">hhih", -1, 0, 1, -1),
    "version above all": struct.pack(">hhih", 3, 99, 1, -1) + bytes(20),
    "negative version": struct.pack(">hhih", 3, -1, 1, -1) + bytes(20),
    "empty frame": b"",
    "truncated header": b"\0\x03\0",
}


@pytest.mark.parametrize("name", INVALID)
def test_row_10_unreadable_requests_close_the_connection(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The log has one line about it, without a traceback; other clients are served."""
    monkeypatch.setattr("kwire.repeated_messages.INTERVAL_MS", 0)  # earlier tests have caused the same line
    caplog.set_level(logging.DEBUG, "kwire")
    with broker.client() as hostile:
        hostile.send_bytes(sized(INVALID[name]))
        assert hostile.is_closed()
    lines = [record for record in caplog.records if "closing connection" in record.getMessage()]
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
    assert len(lines) == 1
    with broker.client() as other:
        assert other.ask(VERSIONS, 3).error_code == ErrorCode.NONE


def test_row_10_an_unknown_version_of_api_versions_is_answered(client: RawClient) -> None:
    """A newer client learns the broker's versions by it (KIP-511); its connection stays open."""
    client.send_bytes(sized(header(18, 99, b"\0") + bytes(20)))
    assert struct.unpack_from(">ih", client.receive_frame()) == (1, ErrorCode.UNSUPPORTED_VERSION)
    client.correlation_id = 1
    assert client.ask(VERSIONS, 3).error_code == ErrorCode.NONE


def test_row_10_log_lines_are_escaped_and_limited(
    broker: RunningBroker, client: RawClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The formatter and the filter of `kwire server` pass the broker's own lines about hostile names."""
    monkeypatch.setattr("kwire.repeated_messages.INTERVAL_MS", 0)
    caplog.set_level(logging.DEBUG, "kwire")
    forged = "x\n2026-01-01 ERROR forged\x1b[2J"
    topic = MetadataRequestTopic(name=forged)
    answer: Any = client.ask(MetadataRequest(topics=[topic], allow_auto_topic_creation=True), 9)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    for _ in range(LINES_PER_SECOND + 30):
        with broker.client() as hostile:
            hostile.send_bytes(sized(INVALID["unknown API"]))
            assert hostile.is_closed()
    limit, formatter = LineLimit(lambda: 1.0), OneLineFormatter("%(message)s")
    of_connections = [record for record in caplog.records if record.name.startswith("kwire.server.network")]
    assert len(of_connections) > LINES_PER_SECOND
    passed = [record for record in of_connections if limit.filter(record)]
    per_logger = {record.name: 0 for record in passed}
    for record in passed:
        per_logger[record.name] += 1
    assert max(per_logger.values()) <= LINES_PER_SECOND
    for record in caplog.records:
        line = formatter.format(record)
        assert "\n2026" not in line
        assert "\x1b" not in line
