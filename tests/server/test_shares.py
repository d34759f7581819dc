"""Shares of the event loop: connections share it by time, also with responses that are built in steps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ProtocolError
from kwire.server.network.flow.turns import (
    FREE_MS,
    NODE_CREDIT_MS,
    RECORD_BYTES_PER_MS,
    SHARE_MS,
    SLOTS_MAX,
    TURN_MS,
    Share,
    Turns,
)
from kwire.server.network.listener import Handle
from kwire.server.network.pending import CloseConnection, Outcome, Pending
from kwire.server.network.response_queue import Response
from tests.server.connection_harness import ConnectionHarness, play
from tests.support.raw_client import sized
from tests.support.running import RunningBroker
from tests.virtual_loop import VirtualLoop


class World:
    """Connections with requests that state their duration in ms: b"3", or b"p3" in steps of 1 ms."""

    def __init__(self, loop: VirtualLoop, count: int) -> None:
        self.ms = 0.0
        self.turns = Turns(lambda: self.ms)
        self.served: list[tuple[int, str]] = []
        """(connection, request or step of it) in the order of service."""
        self.longest_ms = 0.0
        """Longest time without a turn of the event loop."""
        self.closed: list[int] = []
        self._loop = loop
        self._looked_ms = 0.0
        self._is_over = False
        self.harnesses = [ConnectionHarness(turns=self.turns) for _ in range(count)]
        for number, harness in enumerate(self.harnesses):
            harness.listener.handle = self._handler(number)
        self._look()

    def _handler(self, number: int) -> Handle:
        return lambda _, frame: self._handle(number, frame.decode())

    def _look(self) -> None:
        self.longest_ms = max(self.longest_ms, self.ms - self._looked_ms)
        self._looked_ms = self.ms
        if not self._is_over:
            self._loop.call_soon(self._look)

    def _handle(self, number: int, request: str) -> Outcome:
        if request.startswith("p"):
            return self._in_pieces(number, request)
        self._take(number, request, float(request))
        return [request.encode()], 0

    def _take(self, number: int, what: str, ms: float) -> None:
        self.served.append((number, what))
        self.ms += ms

    def _in_pieces(self, number: int, request: str) -> Generator[None, None, Response | Pending]:
        try:
            for _ in range(int(request[1:])):
                self._take(number, request, 1)
                yield
            if request == "p0":
                raise OSError("why")
            return [request.encode()], 0
        finally:
            self.closed.append(number)

    def send(self, number: int, *requests: str) -> None:
        self.harnesses[number].receive(b"".join(sized(request.encode()) for request in requests))

    def answers(self, number: int) -> list[bytes]:
        return self.harnesses[number].transport.written

    async def settle(self) -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
        self.stop_looking()

    def stop_looking(self) -> None:
        """Let virtual time pass from now on."""
        self._is_over = True


def test_a_request_that_comes_alone_is_served_at_once() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        world.send(0, "0.2", "0.3")
        world.send(1, "0.1")
        assert world.served == [(0, "0.2"), (0, "0.3"), (1, "0.1")]

    play(act)


def test_many_requests_do_not_delay_a_single_request() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        world.send(0, *["1"] * 40)
        assert world.served == [(0, "1")], "its share of the turn"
        world.send(1, "0.1")
        await world.settle()
        assert world.served[:3] == [(0, "1"), (1, "0.1"), (0, "1")]
        assert len(world.served) == 41
        assert world.longest_ms <= TURN_MS + 1
        assert b"".join(world.answers(0)) == b"1" * 40

    play(act)


def test_connections_share_time_and_not_numbers_of_requests() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 3)
        world.send(0, *["4"] * 20)
        world.send(1, *["1"] * 60)
        world.send(2, *["0.5"] * 60)
        await world.settle()
        until = world.served[: world.served.index((2, "0.5")) + 90]
        taken = [sum(float(what) for who, what in until if who == number) for number in range(3)]
        assert max(taken) - min(taken) <= 3 * 4, taken
        assert world.longest_ms <= TURN_MS + 4

    play(act)


def test_one_slow_request_does_not_delay_the_next_one_of_its_client() -> None:
    """A garbage collection may run in one request; the client's next request still precedes those of busy clients."""

    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 11)
        for number in range(10):
            world.send(number, *["1"] * 100)
        for _ in range(20):
            await asyncio.sleep(0)
        world.send(10, "40")
        while (10, "40") not in world.served:
            await asyncio.sleep(0)
        served = len(world.served)
        world.send(10, "0.1")
        for _ in range(300):
            await asyncio.sleep(0)
        waited = world.served[served : world.served.index((10, "0.1"))]
        assert sum(float(what) for _, what in waited) < 10 * 3 * SHARE_MS, "not 40 ms of each of ten"
        world.stop_looking()

    play(act)


def test_a_turn_is_bounded_with_many_connections() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 40)
        for number in range(40):
            world.send(number, *["0.5"] * 10)
        await world.settle()
        assert len(world.served) == 400
        assert world.longest_ms <= TURN_MS + 0.5

    play(act)


def test_nodes_go_before_clients_until_they_have_taken_much_more() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        node = world.harnesses[1].connection.share
        node.credit_ms = Share(is_node=True).credit_ms
        world.send(0, *["1"] * 60)
        world.send(1, *["1"] * 60)
        await world.settle()
        numbers = [number for number, _ in world.served]
        assert numbers[1 : 1 + int(NODE_CREDIT_MS)] == [1] * int(NODE_CREDIT_MS)
        rest = numbers[2 + int(NODE_CREDIT_MS) : 60]
        assert abs(rest.count(0) - rest.count(1)) <= 2, "from then on each has its share"
        assert len(numbers) == 120

    play(act)


def test_the_inter_broker_listener_excludes_clients(data_dir: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,NODES://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "NODES",
    }
    with RunningBroker(data_dir, settings) as broker:
        found = {each.name: each.excludes_clients for each in broker.server._listeners._listeners}
        assert found == {"PLAINTEXT": False, "NODES": True}


def test_an_idle_connection_gains_no_extra_share() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        world.send(0, *["1"] * 50)
        for _ in range(5):
            await asyncio.sleep(0)
        before = len(world.served)
        world.send(1, *["1"] * 50)
        await world.settle()
        both = [who for who, _ in world.served[before : before + 20]]
        assert 8 <= both.count(0) <= 12, both

    play(act)


def test_an_answer_in_pieces_lets_others_come_between() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        world.send(0, "p30", "0.1")
        world.send(1, "0.2")
        assert world.served == [(0, "p30")]
        await world.settle()
        assert world.served.index((1, "0.2")) == 1
        assert world.served[-1] == (0, "0.1"), "what is behind it waits for it"
        assert b"".join(world.answers(0)) == b"p300.1"
        assert world.longest_ms <= TURN_MS + SHARE_MS

    play(act)


LONG = int(10 * FREE_MS)
"""Duration in ms of a response that needs a place for steps."""


def test_the_number_of_long_responses_in_progress_is_bounded() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, SLOTS_MAX + 4)
        for number in range(SLOTS_MAX + 4):
            world.send(number, f"p{LONG}")
        await world.settle()
        taken: Counter[int] = Counter()
        at_once = 0
        for who, _ in world.served:
            taken[who] += 1
            at_once = max(at_once, sum(2 * FREE_MS < each < LONG for each in taken.values()))
        assert at_once == SLOTS_MAX
        assert sorted(world.closed) == list(range(SLOTS_MAX + 4))
        assert all(world.answers(number) == [f"p{LONG}".encode()] for number in range(SLOTS_MAX + 4))
        assert world.turns._slots_taken == 0

    play(act)


def test_short_requests_do_not_wait_for_long_responses() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, SLOTS_MAX + 2)
        for number in range(SLOTS_MAX + 1):
            world.send(number, f"p{LONG}")
        while not any(harness.connection.share.waits_for_slot for harness in world.harnesses):
            await asyncio.sleep(0)
        world.send(SLOTS_MAX + 1, "p5")
        begun = world.ms
        while not world.answers(SLOTS_MAX + 1):
            await asyncio.sleep(0)
        assert world.ms - begun <= 5 * (SLOTS_MAX + 2) + 2 * TURN_MS
        assert not any(world.answers(number) for number in range(SLOTS_MAX + 1))
        await world.settle()

    play(act)


def test_a_disconnected_client_releases_its_place() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, SLOTS_MAX + 3)
        for number in range(SLOTS_MAX + 2):
            world.send(number, f"p{LONG}")
        shares = [harness.connection.share for harness in world.harnesses]
        while sum(share.waits_for_slot for share in shares) < 2:
            await asyncio.sleep(0)
        first, second = (number for number, share in enumerate(shares) if share.waits_for_slot)
        has_slot, has_another = [number for number, share in enumerate(shares) if share.has_slot][:2]
        world.harnesses[first].connection.connection_lost(None)  # waits for a place
        world.harnesses[has_slot].connection.connection_lost(None)  # has a slot
        world.harnesses[has_another].connection.close(
            "a test"
        )  # has a place too; its unsent output is still being written
        world.send(SLOTS_MAX + 2, f"p{LONG}")
        await world.settle()
        ended = {each for each in range(SLOTS_MAX + 3) if world.answers(each) == [f"p{LONG}".encode()]}
        assert second in ended
        assert ended == set(range(SLOTS_MAX + 3)) - {first, has_slot, has_another}
        assert world.turns._slots_taken == 0

    play(act)


def test_a_failure_in_pieces_closes_its_connection_and_no_other() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 2)
        world.send(0, "p0", "0.1")
        world.send(1, "0.1")
        await world.settle()
        assert world.served == [(1, "0.1")]
        assert world.harnesses[0].count_calls("close") == 1
        assert [str(error) for error in world.harnesses[0].request_errors] == ["why"]

    play(act)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ProtocolError("bad"), "sent a request that cannot be read: bad"),
        (CloseConnection("no answer"), "no answer"),
    ],
)
def test_a_request_in_pieces_may_end_its_connection(
    error: Exception, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    def reject() -> Generator[None, None, Any]:
        yield
        raise error

    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.outcome = reject()
        with caplog.at_level("INFO"):
            harness.receive(sized(b"one"))
        assert harness.count_calls("close") == 1
        assert not harness.request_errors
        assert caplog.messages[-1].endswith(line)

    play(act)


def test_a_request_in_steps_may_wait_and_continue() -> None:
    async def act(loop: VirtualLoop) -> None:
        waits: asyncio.Future[bytes] = loop.create_future()
        steps: list[str] = []

        def encode(result: bytes) -> Generator[None, None, Response]:
            steps.append("encodes")
            yield
            return [result], 0

        def pieces() -> Generator[None, None, Pending]:
            steps.append("reads")
            yield
            return Pending(waits, encode, pipelined=False)

        harness = ConnectionHarness()
        harness.outcome = pieces()
        harness.receive(sized(b"one"))
        harness.outcome = ([b"two"], 0)
        harness.receive(sized(b"two"))
        await asyncio.sleep(0)
        assert steps == ["reads"]
        waits.set_result(b"one")
        for _ in range(5):
            await asyncio.sleep(0)
        assert (steps, harness.transport.written) == (["reads", "encodes"], [b"onetwo"])
        assert harness.connection._stored_bytes == 0

    play(act)


def test_queued_requests_are_served_after_end_of_input() -> None:
    """A producer with acks=0 sends and disconnects."""

    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        world.send(0, *["1"] * 10)
        assert world.harnesses[0].connection.eof_received()
        await world.settle()
        assert len(world.served) == 10
        assert world.harnesses[0].count_calls("close") == 1
        assert not World(loop, 1).harnesses[0].connection.eof_received()

    play(act)


def test_a_response_in_pieces_is_sent_after_the_end_of_input() -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, SLOTS_MAX + 1)
        for number in range(SLOTS_MAX + 1):
            world.send(number, f"p{LONG}")
        while not (waiting := [each for each in world.harnesses if each.connection.share.waits_for_slot]):
            await asyncio.sleep(0)
        (last,) = waiting
        assert last.connection.eof_received()
        await world.settle()
        assert last.transport.written == [f"p{LONG}".encode()]
        assert last.count_calls("close") == 1

    play(act)


@pytest.mark.parametrize("cause", ["output", "quota", "wait"])
def test_all_requests_are_answered_after_the_end_of_input(cause: str) -> None:
    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        harness, connection = world.harnesses[0], world.harnesses[0].connection
        waited_for: asyncio.Future[str] = loop.create_future()
        if cause == "output":
            connection.pause_writing()
        elif cause == "quota":
            connection.mute(1000)
        else:
            serve = harness.listener.handle
            waits = Pending(waited_for, lambda text: ([text.encode()], 0), pipelined=False)
            harness.listener.handle = lambda who, frame: waits if frame == b"w" else serve(who, frame)
            world.send(0, "w")
        world.send(0, "1", "2", "3")
        assert connection.eof_received()
        world.stop_looking()
        await asyncio.sleep(0.5)
        assert not world.served
        assert not harness.count_calls("close")
        if cause == "output":
            connection.resume_writing()
        elif cause == "wait":
            waited_for.set_result("w")
        await asyncio.sleep(1)
        await world.settle()
        first = [b"w"] if cause == "wait" else []
        assert b"".join(world.answers(0)) == b"".join([*first, b"1", b"2", b"3"])
        assert harness.count_calls("close") == 1

    play(act)


def test_a_produce_request_waits_no_longer_for_its_bytes_than_it_takes() -> None:
    """Next to busy clients, the request waits as long as its cost, at most ten milliseconds."""

    async def act(loop: VirtualLoop) -> None:
        world = World(loop, 11)
        for number in range(10):
            world.send(number, *["p20"] * 20)
        await asyncio.sleep(0)
        harness = world.harnesses[10]
        serve = harness.listener.handle
        served_at: list[float] = []

        def noted(who: Any, frame: bytes) -> Any:
            served_at.append(world.ms)
            return serve(who, b"1")

        harness.listener.handle = noted
        asked_at = world.ms
        harness.receive(sized(bytes(1_000_000)))
        await world.settle()
        assert served_at[0] - asked_at < 10 * 1_000_000 / RECORD_BYTES_PER_MS + 20

    play(act)
