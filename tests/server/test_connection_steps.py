"""Connection whose transport calls its methods in a rare order."""

from __future__ import annotations

import asyncio
import gc
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire import event_loop
from kwire.cluster.configs.settings import CurrentSettings
from kwire.seams import SystemClock
from kwire.server.network.connection import Connection
from kwire.server.network.flow.turns import Turns
from kwire.server.network.listeners import Listeners
from kwire.server.network.pending import Pending
from kwire.server.security.tls.node_tls import NodeTls
from kwire.server.settings.config import SettingError, make_config
from tests.server.connection_harness import ConnectionHarness, Transport, play
from tests.support.raw_client import sized
from tests.virtual_loop import VirtualLoop


def test_a_client_that_has_left_before_it_is_accepted_has_no_address() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness(peer=None)
        assert (harness.connection.peer_host, harness.connection.peer_port) == ("", 0)
        harness.connection.connection_lost(None)
        assert not harness.table.connections

    play(act)


def test_requests_received_after_the_close_are_not_served() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.receive(sized(b"one"))
        harness.connection.close("a test")
        harness.receive(sized(b"two"))
        assert harness.served == [b"one"]

    play(act)


def test_frames_that_follow_the_end_of_another_are_served_at_once() -> None:
    async def act(_: VirtualLoop) -> None:
        stream = sized(b"one") + sized(b"two") + sized(b"three")
        for cut in range(1, len(sized(b"one"))):
            harness = ConnectionHarness()
            harness.receive(stream[:cut])
            assert harness.served == []
            harness.receive(stream[cut:])
            assert harness.served == [b"one", b"two", b"three"]

    play(act)


def test_a_connection_is_closed_once_and_not_dropped_after_its_end() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.connection.close("a test")
        harness.connection.close("a test")
        assert harness.count_calls("close") == 1
        harness.connection.connection_lost(None)
        harness.connection.close_now("a test")
        assert harness.count_calls("abort") == 0
        harness.listener.disconnected(harness.connection)
        assert not harness.table.per_host

    play(act)


def test_closing_a_connection_does_not_restart_its_stall_timer() -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.transport.unsent = 100
        harness.connection.pause_writing()
        began = loop.time()
        await asyncio.sleep(5)
        harness.connection.close("a test")
        assert harness.connection.blocked_output.since == began
        harness.connection.resume_writing()
        assert harness.connection.blocked_output.since == began, "the rest of the output is still to go"
        await asyncio.sleep(5)
        assert harness.connection.is_stalled(loop.time(), 9)

    play(act)


def test_a_client_that_reads_responses_is_not_idle() -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        blocked = harness.connection.blocked_output
        harness.transport.unsent = 100
        harness.connection.pause_writing()
        await asyncio.sleep(5)
        assert not harness.connection.is_stalled(loop.time(), 9)
        assert blocked.last_read == 0
        harness.transport.unsent = 50
        assert not harness.connection.is_stalled(loop.time(), 9)
        assert blocked.last_read == loop.time()
        await asyncio.sleep(5)
        harness.connection.resume_writing()
        assert blocked.last_read == loop.time()

    play(act)


def test_unsent_output_after_end_of_input_stalls_the_connection() -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.transport.unsent = 100
        assert not harness.connection.eof_received()
        await asyncio.sleep(10)
        assert harness.connection.is_stalled(loop.time(), 9)

    play(act)


def test_reading_resumes_when_no_pause_reason_is_left() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.connection.pause_for_memory()
        harness.connection.pause_writing()
        assert harness.count_calls("pause_reading") == 1
        harness.connection.resume_for_memory()
        assert harness.count_calls("resume_reading") == 0
        harness.connection.resume_writing()
        assert harness.count_calls("resume_reading") == 1

    play(act)


def test_the_longest_of_several_throttles_counts() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.connection.mute(1000)
        harness.connection.mute(500)
        harness.connection.mute(2000)
        harness.receive(sized(b"one"))
        await asyncio.sleep(1.9)
        assert harness.served == []
        await asyncio.sleep(0.2)
        assert harness.served == [b"one"]

    play(act)


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_an_error_after_a_disconnect_still_reaches_the_error_callback(error: Exception | None) -> None:
    async def act(loop: VirtualLoop) -> None:
        harness = ConnectionHarness()
        goes_on = loop.create_future()

        async def work() -> None:
            await goes_on

        harness.outcome = Pending(work(), lambda _: (None, 0), pipelined=False)
        harness.receive(sized(b"one"))
        await asyncio.sleep(0)
        harness.connection.connection_lost(None)
        if error is None:
            goes_on.set_result(None)
        else:
            goes_on.set_exception(error)
        await asyncio.sleep(0.1)
        assert harness.request_errors == ([] if error is None else [error])
        assert harness.listener.memory.used_bytes == 0

    play(act)


def test_a_listener_that_was_never_bound_may_be_stopped() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.listener.stop_accepting()
        assert harness.listener.port == 0

    play(act)


def test_an_address_that_is_taken_between_bind_and_serve_is_named() -> None:
    async def act(_: VirtualLoop) -> None:
        config = make_config({"listeners": "PLAINTEXT://127.0.0.1:9092"})
        listeners = Listeners(
            config,
            CurrentSettings(config.parsed),
            config.listeners,
            tls=NodeTls(config, cast("Any", None)),
            turns=Turns(SystemClock().monotonic_ms),
            on_request_error=lambda _: None,
        )
        error = OSError(98, "Address already in use")

        async def serve(handle: Any) -> None:
            raise error

        listeners._listeners = [cast("Any", SimpleNamespace(serve=serve))]
        with pytest.raises(SettingError, match="9092") as rejected:
            await listeners.serve(lambda _: cast("Any", None))
        assert rejected.value.__cause__ is error

    play(act)


@pytest.mark.parametrize("host", ["..", "a..b", "x" * 64])
def test_an_invalid_host_name_is_reported(host: str) -> None:
    async def act(_: VirtualLoop) -> None:
        config = make_config({"listeners": f"PLAINTEXT://{host}:0", "advertised.listeners": "PLAINTEXT://h:1"})
        listeners = Listeners(
            config,
            CurrentSettings(config.parsed),
            config.listeners,
            tls=NodeTls(config, cast("Any", None)),
            turns=Turns(SystemClock().monotonic_ms),
            on_request_error=lambda _: None,
        )
        with pytest.raises(SettingError, match=r"^listeners: cannot listen on .* can be no name"):
            await listeners.bind()

    event_loop.run(act(cast("Any", None)))


def test_a_connection_that_has_ended_is_part_of_no_reference_cycle() -> None:
    """The connection's memory is freed at once; a full collection may be far away (kwire/kept_objects.py)."""

    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.receive(sized(b"one"))
        harness.connection.mute(1000)
        harness.receive(sized(b"two")[:-1])
        harness.connection.connection_lost(None)
        share = harness.connection.share
        before = sys.getrefcount(share)
        del harness.connection
        await asyncio.sleep(0.1)
        assert sys.getrefcount(share) == before - 1

    gc.disable()
    try:
        play(act)
    finally:
        gc.enable()


def test_a_connection_that_arrives_after_the_listener_was_closed_is_aborted() -> None:
    async def act(_: VirtualLoop) -> None:
        harness = ConnectionHarness()
        harness.listener.stop_accepting()
        late = Transport(("10.0.0.2", 98))
        Connection(harness.listener).connection_made(cast("Any", late))
        assert late.calls.count("abort") == 1
        assert harness.count_calls("abort") == 0, "the connection that was open stays"

    play(act)
