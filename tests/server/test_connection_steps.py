"""Connection whose transport calls its methods in a rare order."""

from __future__ import annotations

import asyncio
import gc
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire import event_loop
from kwire.cluster.settings import CurrentSettings
from kwire.seams import SystemClock
from kwire.server.network.listeners import Listeners
from kwire.server.network.pending import Pending
from kwire.server.network.turns import Turns
from kwire.server.settings.config import SettingError, make_config
from tests.server.door import Door, play
from tests.support.raw_client import sized
from tests.virtual_loop import VirtualLoop


def test_a_client_that_has_left_before_it_is_accepted_has_no_address() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door(peer=None)
        assert (door.connection.peer_host, door.connection.peer_port) == ("", 0)
        door.connection.connection_lost(None)
        assert not door.table.connections

    play(act)


def test_nothing_is_served_of_what_comes_after_the_close() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.receive(sized(b"one"))
        door.connection.close("a test")
        door.receive(sized(b"two"))
        assert door.served == [b"one"]

    play(act)


def test_frames_that_follow_the_end_of_another_are_served_at_once() -> None:
    async def act(_: VirtualLoop) -> None:
        stream = sized(b"one") + sized(b"two") + sized(b"three")
        for cut in range(1, len(sized(b"one"))):
            door = Door()
            door.receive(stream[:cut])
            assert door.served == []
            door.receive(stream[cut:])
            assert door.served == [b"one", b"two", b"three"]

    play(act)


def test_a_connection_is_closed_once_and_not_dropped_after_its_end() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.connection.close("a test")
        door.connection.close("a test")
        assert door.asked("close") == 1
        door.connection.connection_lost(None)
        door.connection.abort("a test")
        assert door.asked("abort") == 0
        door.listener.disconnected(door.connection)
        assert not door.table.per_host

    play(act)


def test_the_time_that_a_client_takes_nothing_is_not_begun_again_by_a_close() -> None:
    async def act(loop: VirtualLoop) -> None:
        door = Door()
        door.transport.unsent = 100
        door.connection.pause_writing()
        began = loop.time()
        await asyncio.sleep(5)
        door.connection.close("a test")
        assert door.connection.blocked_output.since == began
        door.connection.resume_writing()
        assert door.connection.blocked_output.since == began, "the rest of the output is still to go"
        await asyncio.sleep(5)
        assert door.connection.is_stalled(loop.time(), 9)

    play(act)


def test_who_takes_something_of_its_answers_is_not_idle() -> None:
    async def act(loop: VirtualLoop) -> None:
        door = Door()
        blocked = door.connection.blocked_output
        door.transport.unsent = 100
        door.connection.pause_writing()
        await asyncio.sleep(5)
        assert not door.connection.is_stalled(loop.time(), 9)
        assert blocked.taken_at == 0
        door.transport.unsent = 50
        assert not door.connection.is_stalled(loop.time(), 9)
        assert blocked.taken_at == loop.time()
        await asyncio.sleep(5)
        door.connection.resume_writing()
        assert blocked.taken_at == loop.time()

    play(act)


def test_what_is_unsent_at_the_clients_end_is_not_waited_for_without_end() -> None:
    async def act(loop: VirtualLoop) -> None:
        door = Door()
        door.transport.unsent = 100
        assert not door.connection.eof_received()
        await asyncio.sleep(10)
        assert door.connection.is_stalled(loop.time(), 9)

    play(act)


def test_a_connection_is_read_from_again_when_nothing_holds_it_back() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.connection.pause_for_memory()
        door.connection.pause_writing()
        assert door.asked("pause_reading") == 1
        door.connection.resume_for_memory()
        assert door.asked("resume_reading") == 0
        door.connection.resume_writing()
        assert door.asked("resume_reading") == 1

    play(act)


def test_the_longest_of_several_throttles_counts() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.connection.hold(1000)
        door.connection.hold(500)
        door.connection.hold(2000)
        door.receive(sized(b"one"))
        await asyncio.sleep(1.9)
        assert door.served == []
        await asyncio.sleep(0.2)
        assert door.served == [b"one"]

    play(act)


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_an_error_of_a_request_whose_client_has_left_is_still_judged(error: Exception | None) -> None:
    async def act(loop: VirtualLoop) -> None:
        door = Door()
        goes_on = loop.create_future()

        async def work() -> None:
            await goes_on

        door.outcome = Pending(work(), lambda _: (None, 0), pipelined=False)
        door.receive(sized(b"one"))
        await asyncio.sleep(0)
        door.connection.connection_lost(None)
        if error is None:
            goes_on.set_result(None)
        else:
            goes_on.set_exception(error)
        await asyncio.sleep(0.1)
        assert door.judged == ([] if error is None else [error])
        assert door.listener.memory.used_bytes == 0

    play(act)


def test_a_listener_that_was_never_bound_may_be_stopped() -> None:
    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.listener.stop_accepting()
        assert door.listener.port == 0

    play(act)


def test_an_address_that_is_taken_between_bind_and_serve_is_named() -> None:
    async def act(_: VirtualLoop) -> None:
        config = make_config({"listeners": "PLAINTEXT://127.0.0.1:9092"})
        listeners = Listeners(
            config,
            CurrentSettings(config.parsed),
            config.listeners,
            turns=Turns(SystemClock().monotonic_ms),
            judge=lambda _: None,
        )
        error = OSError(98, "Address already in use")

        async def serve(handle: Any) -> None:
            raise error

        listeners._listeners = [cast("Any", SimpleNamespace(serve=serve))]
        with pytest.raises(SettingError, match="9092") as refused:
            await listeners.serve(lambda _: cast("Any", None))
        assert refused.value.__cause__ is error

    play(act)


@pytest.mark.parametrize("host", ["..", "a..b", "x" * 64])
def test_a_host_that_can_be_no_name_is_told(host: str) -> None:
    async def act(_: VirtualLoop) -> None:
        config = make_config({"listeners": f"PLAINTEXT://{host}:0", "advertised.listeners": "PLAINTEXT://h:1"})
        listeners = Listeners(
            config,
            CurrentSettings(config.parsed),
            config.listeners,
            turns=Turns(SystemClock().monotonic_ms),
            judge=lambda _: None,
        )
        with pytest.raises(SettingError, match=r"^listeners: cannot listen on .* can be no name"):
            await listeners.bind()

    event_loop.run(act(cast("Any", None)))


def test_a_connection_that_has_ended_is_part_of_no_reference_cycle() -> None:
    """The connection's memory is freed at once; a full collection may be far away (kwire/kept_objects.py)."""

    async def act(_: VirtualLoop) -> None:
        door = Door()
        door.receive(sized(b"one"))
        door.connection.hold(1000)
        door.receive(sized(b"two")[:-1])
        door.connection.connection_lost(None)
        share = door.connection.share
        before = sys.getrefcount(share)
        del door.connection
        await asyncio.sleep(0.1)
        assert sys.getrefcount(share) == before - 1

    gc.disable()
    try:
        play(act)
    finally:
        gc.enable()
