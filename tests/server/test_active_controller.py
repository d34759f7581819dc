"""Requests to the active controller: local, remote, after a change of leader, and the error if there is none."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from kwire.chunks import at_once, whole
from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.framing import encode_response, parse_request_header
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kwire.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kwire.protocol.schema import schema_of
from kwire.server.apis.cluster import administration
from kwire.server.apis.topics import create_topics
from kwire.server.other_nodes.active_controller import (
    ENVELOPES_AT_ONCE,
    ActiveController,
    NoActiveControllerError,
    RequestOrigin,
)
from kwire.server.other_nodes.envelopes import decode_principal, encode_principal, says_not_controller
from kwire.server.requests.context import ForwardedClient
from tests.virtual_loop import VirtualClock, virtual_loop

SIZE_BYTES = 4
ONE, TWO = Destination(1, "one", 9093), Destination(2, "two", 9093)


class Quorum:
    """Quorum with a leader id and epoch that a test sets."""

    def __init__(self, leader: Destination | None) -> None:
        self.leader = leader


class Log:
    """Part of a metadata log that names the leader."""

    def __init__(self, leader: Destination | None) -> None:
        self.node = self
        self.quorum = Quorum(leader)
        self.is_active = False
        self.metadata_age_ms = 14_000.0
        self.controller_changed: Callable[[], None] = lambda: None

    def led_by(self, leader: Destination | None, *, here: bool = False) -> None:
        self.quorum.leader, self.is_active = leader, here
        self.controller_changed()


class Channel:
    """Channel whose nodes respond when and as the test says."""

    def __init__(self, answer: Callable[[Destination, Any], Any]) -> None:
        self.asked: list[tuple[int, Any]] = []
        self.held: set[int] = set()
        self._answer = answer

    async def send(self, destination: Destination, request: Any) -> Any:
        self.asked.append((destination.node_id, request))
        if destination.node_id in self.held:
            await asyncio.get_running_loop().create_future()
        return self._answer(destination, request)


HEARTBEAT = BrokerHeartbeatRequest(broker_id=7, broker_epoch=1)
OK = BrokerHeartbeatResponse(is_caught_up=True)
CLIENT = RequestOrigin(
    client=ForwardedClient(peer_host="10.1.2.3", peer_port=77, principal="User:alice"),
    client_id="app",
    listener_name="PLAINTEXT",
    version=7,
    correlation_id=42,
)


def run(
    log: Log,
    channel: Channel,
    scenario: Callable[[ActiveController], Any],
    *,
    here: Callable[[Any, RequestOrigin], Any] | None = None,
) -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            way = ActiveController(
                metadata_log=cast("MetadataLog", log),
                channel=channel,
                clock=VirtualClock(loop),
                here=here,
                itself=RequestOrigin(client=CLIENT.client, client_id=None, listener_name="CONTROLLER", version=None),
                timeout_ms=1000,
            )
            log.controller_changed = way.controller_changed
            await scenario(way)

        loop.run_until_complete(main())


def unreachable(destination: Destination, request: Any) -> Any:
    raise Unreachable(f"node {destination.node_id}")


def test_a_nodes_own_request_is_sent_without_an_envelope() -> None:
    channel = Channel(lambda destination, request: OK)

    async def scenario(way: ActiveController) -> None:
        assert await way.send(HEARTBEAT) is OK
        assert channel.asked == [(1, HEARTBEAT)]

    run(Log(ONE), channel, scenario)


def test_the_active_controller_serves_its_own_requests() -> None:
    log = Log(None)
    log.is_active = True
    seen: list[tuple[Any, int | None]] = []

    async def later(request: Any, request_origin: RequestOrigin) -> Any:
        seen.append((request, request_origin.version))
        return OK

    async def scenario(way: ActiveController) -> None:
        assert await way.send(HEARTBEAT) is OK
        assert await way.send(HEARTBEAT, CLIENT) is OK
        assert seen == [(HEARTBEAT, None), (HEARTBEAT, 7)]

    run(log, Channel(unreachable), scenario, here=later)


def test_a_client_request_is_forwarded_in_an_envelope_with_its_principal() -> None:
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    def answer(destination: Destination, envelope: EnvelopeRequest) -> EnvelopeResponse:
        assert decode_principal(bytes(envelope.request_principal or b"")) == ("User:alice", False)
        assert bytes(envelope.client_host_address) == bytes([10, 1, 2, 3])
        frame = bytes(envelope.request_data)
        header = parse_request_header(frame)
        assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (19, 7, 42, "app")
        assert decode(CreateTopicsRequest, 7, frame, header.body_position).topics[0].name == "t"
        response = CreateTopicsResponse(throttle_time_ms=5)
        return EnvelopeResponse(response_data=b"".join(encode_response(42, response, 7))[SIZE_BYTES:])

    async def scenario(way: ActiveController) -> None:
        assert (await way.send(wanted, CLIENT)).throttle_time_ms == 5

    run(Log(ONE), Channel(answer), scenario)


@pytest.mark.parametrize("rejection", [BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), None])
def test_a_former_leader_is_soon_replaced_by_the_new_one(rejection: Any) -> None:
    log = Log(ONE)

    def answer(destination: Destination, request: Any) -> Any:
        if destination.node_id == 2:
            return OK
        if rejection is None:
            raise Unreachable("gone")
        asyncio.get_running_loop().call_later(0.03, log.led_by, TWO)
        return rejection

    async def scenario(way: ActiveController) -> None:
        loop = asyncio.get_running_loop()
        if rejection is None:
            loop.call_later(0.03, log.led_by, TWO)
        assert await way.send_until_answered(HEARTBEAT) is OK
        assert loop.time() == pytest.approx(0.03), "as soon as it was known who leads"

    run(log, Channel(answer), scenario)


def test_a_leader_that_does_not_answer_is_given_up_when_another_one_leads() -> None:
    log, channel = Log(ONE), Channel(lambda destination, request: OK)
    channel.held.add(1)

    async def scenario(way: ActiveController) -> None:
        asyncio.get_running_loop().call_later(0.5, log.led_by, TWO)
        assert await way.send_until_answered(HEARTBEAT) is OK
        assert [node_id for node_id, _ in channel.asked] == [1, 2]

    run(log, channel, scenario)


def test_requests_that_wait_for_a_connection_are_not_sent_to_a_former_leader() -> None:
    def answer(destination: Destination, envelope: EnvelopeRequest) -> EnvelopeResponse:
        response = CreateTopicsResponse()
        return EnvelopeResponse(response_data=b"".join(encode_response(42, response, 7))[SIZE_BYTES:])

    log, channel = Log(ONE), Channel(answer)
    channel.held.add(1)

    async def scenario(way: ActiveController) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, log.led_by, TWO)
        many = [way.send_until_answered(CreateTopicsRequest(), CLIENT) for _ in range(2 * ENVELOPES_AT_ONCE)]
        await asyncio.gather(*many)
        assert loop.time() < 1
        assert [node_id for node_id, _ in channel.asked].count(1) == ENVELOPES_AT_ONCE

    run(log, channel, scenario)


def test_cancelling_a_forwarded_request_cancels_its_response() -> None:
    log, channel = Log(ONE), Channel(lambda destination, request: OK)
    channel.held.add(1)

    async def scenario(way: ActiveController) -> None:
        asking = asyncio.ensure_future(way.send(HEARTBEAT))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not way._sends

    run(log, channel, scenario)


@pytest.mark.parametrize("leader", [None, ONE])
def test_requests_time_out_when_no_controller_responds(leader: Destination | None) -> None:
    async def scenario(way: ActiveController) -> None:
        with pytest.raises(NoActiveControllerError):
            await way.send(HEARTBEAT)
        with pytest.raises(KafkaError) as raised:
            await way.send_until_answered(HEARTBEAT)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert str(raised.value.message).endswith("; this node's metadata are 14 s old")
        assert 1.0 <= asyncio.get_running_loop().time() < 1.2

    run(Log(leader), Channel(unreachable), scenario)


def test_a_request_fails_when_no_controller_has_ever_responded() -> None:
    log = Log(None)
    log.metadata_age_ms = math.inf

    async def scenario(way: ActiveController) -> None:
        with pytest.raises(KafkaError) as raised:
            await way.send_until_answered(HEARTBEAT)
        assert str(raised.value.message).endswith("; no controller has answered this node yet")

    run(log, Channel(unreachable), scenario)


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.POLICY_VIOLATION])
def test_a_controller_here_that_stops_to_lead_is_asked_again_and_one_that_rejects_is_not(code: ErrorCode) -> None:
    log = Log(None)
    log.is_active = True
    rejections = [KafkaError(code)]

    def here(request: Any, request_origin: RequestOrigin) -> Any:
        if rejections:
            raise rejections.pop()
        return OK

    async def scenario(way: ActiveController) -> None:
        if code is ErrorCode.NOT_CONTROLLER:
            assert await way.send_until_answered(HEARTBEAT) is OK
            return
        with pytest.raises(KafkaError) as raised:
            await way.send_until_answered(HEARTBEAT)
        assert raised.value.code is code

    run(log, Channel(unreachable), scenario, here=here)


@pytest.mark.parametrize(
    "answer",
    [
        EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION),
        EnvelopeResponse(response_data=None),
        EnvelopeResponse(response_data=b"\0"),
        EnvelopeResponse(response_data=b"\0\0\0\x2a\0" + b"\xff" * 9),
    ],
)
def test_an_envelope_that_is_rejected_is_an_error_of_the_server(answer: EnvelopeResponse) -> None:
    async def scenario(way: ActiveController) -> None:
        with pytest.raises(KafkaError) as raised:
            await way.send(CreateTopicsRequest(), CLIENT)
        assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    run(Log(ONE), Channel(lambda destination, request: answer), scenario)


@pytest.mark.parametrize(("api", "reject"), administration._PASSED_ON)
def test_an_error_response_can_be_encoded_in_every_version(api: Any, reject: Callable[[Any, KafkaError], Any]) -> None:
    response = asyncio.run(whole(reject(api.request(), KafkaError(ErrorCode.REQUEST_TIMED_OUT))))
    assert isinstance(response, api.response)
    for version in range(api.min_version, api.max_version + 1):
        out = bytearray()
        encode(response, version, out)
        assert out
    names = {field.name for field in schema_of(api.response).fields}
    assert getattr(response, "error_code", None) == (ErrorCode.REQUEST_TIMED_OUT if "error_code" in names else None)


def test_an_error_response_names_each_topic_once() -> None:
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in ("a", "b", "a")])
    rejected = at_once(create_topics.reject(wanted, KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
    assert [(each.name, each.error_code) for each in rejected.topics] == [("a", 7), ("b", 7)]


def test_principals_survive_the_envelope() -> None:
    for principal in ("User:ANONYMOUS", "User:a:b", "Service:", "User:\u00fc"):
        for by_token in (False, True):
            data = encode_principal(principal, token_authenticated=by_token)
            assert decode_principal(data) == (principal, by_token)


def test_not_controller_is_found_at_the_top_or_in_the_first_element() -> None:
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name="a")])
    assert not says_not_controller(at_once(create_topics.reject(wanted, KafkaError(ErrorCode.POLICY_VIOLATION))))
    assert says_not_controller(at_once(create_topics.reject(wanted, KafkaError(ErrorCode.NOT_CONTROLLER))))
