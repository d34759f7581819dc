"""Connections: frames split in any way, responses in order, and errors that close the connection without a response."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.server.network.connection import Connection
from tests.support.raw_client import RawClient, sized
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
    unique,
    values_in,
)
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


def test_a_frame_may_be_cut_at_every_byte(client: RawClient) -> None:
    frame = client.frame(VERSIONS, 3)
    for cut in range(1, len(frame)):
        client.send_bytes(frame[:cut])
        client.send_bytes(frame[cut:])
        assert client.receive(VERSIONS, 3).error_code == 0
    for position in range(len(frame)):
        client.send_bytes(frame[position : position + 1])
    assert client.receive(VERSIONS, 3).error_code == 0


def test_many_frames_of_one_segment_are_answered_in_order(client: RawClient) -> None:
    frames = [client.frame(VERSIONS, 3) for _ in range(200)]
    client.send_bytes(b"".join(frames))
    for correlation_id in range(1, 201):
        assert client.receive(VERSIONS, 3, correlation_id=correlation_id).error_code == 0


def test_frames_cut_at_random_are_answered_in_order(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    requests = [
        produce_request(topic, batch(b"%d" % number * (number % 700 + 1))) if number % 3 else VERSIONS
        for number in range(150)
    ]
    stream = b"".join(client.frame(request, 3) for request in requests)
    random_source = random.Random(7)
    first = client.correlation_id - len(requests) + 1
    position = 0
    while position < len(stream):
        size = random_source.choice((1, 3, 50, 2_000, 30_000))
        client.send_bytes(stream[position : position + size])
        position += size
    for number, request in enumerate(requests):
        client.receive(request, 3, correlation_id=first + number)
    assert eventually(lambda: broker.memory_used == 0, "all request memory to be given back")


def test_produce_behind_a_long_poll_waits_its_turn(client: RawClient) -> None:
    topic, _ = create_topic(client)
    poll = fetch_request(topic, max_wait_ms=300)
    first = client.frame(poll, 12)
    second = client.frame(produce_request(topic, batch(b"late")), 11)
    client.send_bytes(first + second)
    polled = client.receive(poll, 12, correlation_id=client.correlation_id - 1)
    assert not polled.responses or not polled.responses[0].partitions[0].records
    produced = client.receive(produce_request(topic, b""), 11)
    assert produced.responses[0].partition_responses[0].base_offset == 0


def test_a_fetch_behind_a_produce_sees_it(client: RawClient) -> None:
    topic, _ = create_topic(client)
    write, read = produce_request(topic, batch(b"one")), fetch_request(topic)
    client.send_bytes(client.frame(write, 11) + client.frame(read, 12))
    client.receive(write, 11, correlation_id=client.correlation_id - 1)
    assert values_in(client.receive(read, 12).responses[0].partitions[0].records) == [b"one"]


def test_a_long_poll_of_one_connection_is_woken_by_another(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    poll = fetch_request(topic, max_wait_ms=20_000)
    with broker.client() as other:
        client.send_bytes(client.frame(poll, 12))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
        produce(other, topic, batch(b"news"))
        assert values_in(client.receive(poll, 12).responses[0].partitions[0].records) == [b"news"]
    assert broker.waiters(topic) == 0


def test_a_long_poll_waits_for_min_bytes(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    part = batch(b"x" * 100)
    poll = fetch_request(topic, max_wait_ms=20_000, min_bytes=2 * len(part))
    with broker.client() as other:
        client.send_bytes(client.frame(poll, 12))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
        produce(other, topic, part)
        assert broker.waiters(topic) == 1
        produce(other, topic, part)
        assert len(client.receive(poll, 12).responses[0].partitions[0].records) == 2 * len(part)


def test_a_client_that_leaves_a_long_poll_leaves_no_waiter(broker: RunningBroker) -> None:
    with broker.client() as client:
        topic, _ = create_topic(client)
        client.send_bytes(client.frame(fetch_request(topic, max_wait_ms=600_000), 12))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
    eventually(lambda: broker.waiters(topic) == 0, "the waiter to go")
    eventually(lambda: broker.memory_used == 0, "its memory to be given back")


@pytest.mark.parametrize("size", [-1, -(2**31), 104857601, 2**31 - 1])
def test_a_frame_size_out_of_bounds_closes_the_connection_and_allocates_nothing(
    broker: RunningBroker, size: int
) -> None:
    with broker.client() as client:
        client.send_bytes(struct.pack(">i", size))
        assert client.is_closed()
    assert broker.memory_used == 0


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        struct.pack(">hhi", 18, 0, 1),  # no client id
        struct.pack(">hhih", 18, 0, 1, 5) + b"abc",  # a client id that does not fit
        struct.pack(">hhih", 18, 0, 1, -2),
        struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 999, 0, 1, -1),  # unknown API
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 3, 14, 1, -1) + b"\x00" * 20,  # unsupported version of Metadata
        struct.pack(">hhih", 3, -1, 1, -1) + b"\x00" * 20,
        struct.pack(">hhih", 7, 3, 1, -1) + b"\x00" * 20,  # ControlledShutdown: known, not served
        struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff",  # array of two billion topics
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x00\xff\xff\xff\xff\xff\x0f",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_malformed_requests_close_the_connection(broker: RunningBroker, frame: bytes) -> None:
    with broker.client() as client:
        client.send_bytes(sized(frame))
        assert client.is_closed()
    assert broker.memory_used == 0


def test_a_plain_http_request_closes_the_connection(broker: RunningBroker) -> None:
    with broker.client() as client:
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
        assert client.is_closed()


def test_random_requests_do_not_affect_other_connections(broker: RunningBroker, client: RawClient) -> None:
    random_source = random.Random(11)
    for _ in range(60):
        with broker.client() as bad:
            key, version = random_source.choice((0, 1, 2, 3, 8, 11, 19, 32)), random_source.randrange(14)
            body = random_source.randbytes(random_source.randrange(200))
            bad.send_bytes(sized(struct.pack(">hhih", key, version, 1, -1) + body))
    assert client.ask(VERSIONS, 3).error_code == 0
    eventually(lambda: broker.connection_count == 1, "the others to be gone")
    eventually(lambda: broker.memory_used == 0, "their memory to be given back")


def test_requests_after_a_rejected_request_are_not_served(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    with broker.client() as bad:
        rejected = bad.frame(produce_request(unique("missing"), batch(b"a"), acks=0), 11)
        behind = bad.frame(produce_request(topic, batch(b"b"), acks=0), 11)
        bad.send_bytes(rejected + behind)
        assert bad.is_closed()
    assert fetch(client, topic).high_watermark == 0


@pytest.mark.parametrize("tail", ["unknown API", "acks 0", "bad length"])
def test_stored_produce_requests_get_responses_before_an_error_closes_the_connection(
    broker: RunningBroker, client: RawClient, tail: str
) -> None:
    """Each produce request still waits for a flush when an error ends the connection."""
    topic, _ = create_topic(client, flush_messages=1)
    with broker.client() as bad:
        stored = b"".join(bad.frame(produce_request(topic, batch(b"a")), 11) for _ in range(3))
        ends = {
            "unknown API": sized(struct.pack(">hhih", 999, 0, 1, -1)),
            "acks 0": bad.frame(produce_request(unique("missing"), batch(b"a"), acks=0), 11),
            "bad length": struct.pack(">i", -1),
        }
        bad.send_bytes(stored + ends[tail])
        assert [struct.unpack_from(">i", bad.receive_frame())[0] for _ in range(3)] == [1, 2, 3]
        assert bad.is_closed()
    assert fetch(client, topic).high_watermark == 3


def test_requests_after_a_malformed_request_are_not_served(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    with broker.client() as bad:
        good = bad.frame(produce_request(topic, batch(b"b"), acks=0), 11)
        bad.send_bytes(sized(b"\x7f\xff") + good * 3)
        assert bad.is_closed()
    assert fetch(client, topic).high_watermark == 0


def test_acks_0_is_not_answered(client: RawClient) -> None:
    topic, _ = create_topic(client)
    client.send_bytes(client.frame(produce_request(topic, batch(b"a"), acks=0), 11))
    client.ask(VERSIONS, 3)  # its response arrives first
    assert fetch(client, topic).high_watermark == 1


def test_a_version_of_api_versions_that_is_too_new_is_answered_in_version_0(client: RawClient) -> None:
    header = client.header(18, 9, flexible=True)
    client.send_bytes(sized(header + b"whatever a newer client may send"))
    answer = client.receive(ApiVersionsRequest(), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
    assert client.ask(VERSIONS, 3).error_code == 0


def test_an_invalid_client_software_name_is_rejected(client: RawClient) -> None:
    odd = ApiVersionsRequest(client_software_name="-raw", client_software_version="1")
    assert client.ask(odd, 3).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(VERSIONS, 3).error_code == 0


def test_a_client_without_a_client_id_is_served(broker: RunningBroker) -> None:
    with broker.client(client_id=None) as client:
        assert client.ask(VERSIONS, 0).error_code == 0
        assert client.ask(VERSIONS, 3).error_code == 0


def test_a_disconnect_within_a_request_releases_its_memory(broker: RunningBroker) -> None:
    with broker.client() as client:
        client.send_bytes(struct.pack(">i", 50_000_000) + b"x" * 300_000)
        eventually(lambda: broker.memory_used == 300_004, "the bytes that came, and no more, to be held")
    eventually(lambda: broker.memory_used == 0, "them to be given back")


def test_a_client_that_does_not_read_holds_back_only_itself(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client, max_message_bytes=8_000_000)
    produce(client, topic, batch(b"x" * 5_000_000))
    with broker.client(receive_buffer=4096) as lazy:
        poll = fetch_request(topic, partition_max_bytes=10_000_000)
        lazy.send_bytes(b"".join(lazy.frame(poll, 12) for _ in range(20)))
        eventually(lambda: blocked(broker), "the connection to be held back")
        unsent = broker.call(lambda: max(unsent_bytes(each) for each in table(broker)))
        assert unsent < 20_000_000, "output piles up past the limit"
        assert fetch(client, topic).high_watermark == 1
        for correlation_id in range(1, 21):
            answer = lazy.receive(poll, 12, correlation_id=correlation_id)
            assert len(answer.responses[0].partitions[0].records) > 5_000_000
    eventually(lambda: not blocked(broker), "no connection to be blocked")


def table(broker: RunningBroker) -> list[Connection]:
    return list(broker.server._listeners.table.connections)


def blocked(broker: RunningBroker) -> bool:
    return broker.call(lambda: any(each.blocked_output.since is not None for each in table(broker)))


def test_metadata_is_answered_between_pipelined_requests_of_one_client(client: RawClient) -> None:
    topic, _ = create_topic(client)
    ask = MetadataRequest(topics=None)
    requests = [produce_request(topic, batch(b"v")), ask] * 40
    versions = [11, 12] * 40
    client.send_bytes(b"".join(client.frame(*pair) for pair in zip(requests, versions, strict=True)))
    first = client.correlation_id - len(requests) + 1
    for number, (request, version) in enumerate(zip(requests, versions, strict=True)):
        client.receive(request, version, correlation_id=first + number)
    assert fetch(client, topic).high_watermark == 40


def test_a_broker_stops_under_a_waiting_client(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path / "data")
    with broker.client() as client:
        topic, _ = create_topic(client)
        client.send_bytes(client.frame(fetch_request(topic, max_wait_ms=600_000), 12))
        eventually(lambda: broker.waiters(topic) == 1, "the fetch to wait")
        broker.stop()
        assert client.is_closed()


def unsent_bytes(connection: Connection) -> int:
    assert connection._transport is not None
    return connection._transport.get_write_buffer_size()
