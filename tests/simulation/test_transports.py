"""TCP in memory, as used through asyncio's streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from kwire.simulation import Process, Simulation, Speed
from kwire.simulation.servers import Server
from kwire.simulation.streams import WINDOW_BYTES, StreamTransport

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PORT = 7000


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


def serve(simulation: Simulation, handler: Handler) -> Process:
    """Start a server on the host `server`."""
    process = simulation.host("server").start()
    process.run(_serve(handler))
    simulation.advance(0.001)
    return process


async def _serve(handler: Handler) -> None:
    server = await asyncio.start_server(handler, "server", PORT)
    await server.serve_forever()


def transport_of(writer: asyncio.StreamWriter) -> StreamTransport:
    assert isinstance(writer.transport, StreamTransport)
    return writer.transport


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()


async def ask(text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("server", PORT)
    writer.write(text)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_a_half_closed_side_still_receives_data(simulation: Simulation) -> None:
    process = serve(simulation, echo)
    text = bytes(range(256)) * 5000
    assert simulation.run(ask(text)) == text + b"end"
    simulation.advance(1)
    assert not process.loop.transports
    assert not simulation.client.loop.transports


def test_names_and_addresses_are_the_same(simulation: Simulation) -> None:
    seen: list[tuple[object, object]] = []

    async def look(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((writer.get_extra_info("peername"), writer.get_extra_info("sockname")))
        writer.close()

    serve(simulation, look)
    address = simulation.host("server").address

    async def scenario() -> tuple[object, object]:
        reader, writer = await asyncio.open_connection(address, PORT)
        assert await reader.read() == b""
        writer.close()
        return writer.get_extra_info("sockname"), writer.get_extra_info("peername")

    assert simulation.run(scenario()) == seen[0]
    assert seen[0][1] == (address, PORT)


def test_connecting_to_a_closed_port_or_unknown_host_fails(simulation: Simulation) -> None:
    simulation.host("server")
    with pytest.raises(ConnectionRefusedError):
        simulation.run(ask(b""))
    with pytest.raises(OSError, match="not known"):
        simulation.run(asyncio.open_connection("nowhere", PORT))
    assert simulation.now < 1


def test_connecting_to_an_isolated_host_times_out(simulation: Simulation) -> None:
    serve(simulation, echo)
    simulation.network.isolate("server")
    with pytest.raises(TimeoutError):
        simulation.run(ask(b""))
    assert simulation.now == pytest.approx(127, abs=1)


def test_a_connection_may_break_before_connection_made(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Server.accept
    ends = []

    def break_and_accept(server: Server, transport: StreamTransport) -> None:
        transport.break_down(ConnectionResetError())
        accept(server, transport)

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        except ConnectionResetError as error:
            ends.append(error)
        writer.close()

    monkeypatch.setattr(Server, "accept", break_and_accept)
    serve(simulation, read)
    _, writer = simulation.run(asyncio.open_connection("server", PORT))
    simulation.advance(1)
    writer.close()
    simulation.advance(1)
    assert len(ends) == 1


def test_a_port_is_taken_until_its_process_is_gone(simulation: Simulation) -> None:
    process = serve(simulation, echo)
    second = process.run(_serve(echo))
    simulation.advance(1)
    with pytest.raises(OSError, match="in use"):
        second.result()
    simulation.host("server").kill()
    serve(simulation, echo)
    assert simulation.run(ask(b"again")) == b"againend"


def test_a_reader_that_does_not_read_stops_the_writer(simulation: Simulation) -> None:
    received = bytearray()
    may_read = False

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = transport_of(writer)
        transport.pause_reading()
        while not may_read:
            await asyncio.sleep(1)
        transport.resume_reading()
        received.extend(await reader.readexactly(10 * WINDOW_BYTES))
        writer.close()

    serve(simulation, slow)

    async def scenario() -> float:
        nonlocal may_read
        _, writer = await asyncio.open_connection("server", PORT)
        writer.write(bytes(10 * WINDOW_BYTES))
        transport = transport_of(writer)
        assert transport.get_write_buffer_size() == 9 * WINDOW_BYTES
        draining = asyncio.create_task(writer.drain())
        await asyncio.sleep(50)
        assert not draining.done()
        assert transport.outgoing.in_flight == WINDOW_BYTES
        may_read = True
        await draining
        assert transport.get_write_buffer_size() <= transport.get_write_buffer_limits()[0]
        writer.close()
        await writer.wait_closed()
        return simulation.now

    assert simulation.run(scenario()) < 55
    simulation.advance(1)
    assert len(received) == 10 * WINDOW_BYTES


@pytest.mark.parametrize("source", ["client", "server"])
def test_a_network_partition_delays_data_and_loses_none(simulation: Simulation, source: str) -> None:
    serve(simulation, echo)
    target = "server" if source == "client" else "client"

    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        simulation.network.cut(source, target)
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await reader.readexactly(3)
        simulation.network.heal()
        assert await reader.readexactly(3) == b"two"
        writer.close()

    simulation.run(scenario())
    assert 30 < simulation.now < 32


def test_a_connection_that_is_not_acknowledged_breaks(simulation: Simulation) -> None:
    serve(simulation, echo)

    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        simulation.network.split(["client"], ["server"])
        writer.write(b"one")
        with pytest.raises(TimeoutError):
            await reader.read()
        writer.close()

    simulation.run(scenario())
    assert simulation.now == pytest.approx(simulation.network.give_up_seconds, abs=1)


def test_a_reset_breaks_both_ends(simulation: Simulation) -> None:
    process = serve(simulation, echo)

    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        assert simulation.network.reset("client", "server") == 1
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    simulation.run(scenario())
    simulation.advance(1)
    assert not process.loop.transports


@pytest.mark.parametrize("unread", [False, True])
def test_the_kernel_closes_what_a_killed_process_had(simulation: Simulation, unread: bool) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        transport_of(writer).pause_reading()
        await asyncio.sleep(1000)

    serve(simulation, greet)

    async def scenario() -> bytes:
        reader, writer = await asyncio.open_connection("server", PORT)
        if unread:
            writer.write(b"nobody will read this")
        await asyncio.sleep(1)
        simulation.host("server").kill()
        try:
            return await reader.read()
        finally:
            writer.close()

    if unread:
        with pytest.raises(ConnectionResetError):
            simulation.run(scenario())
    else:
        assert simulation.run(scenario()) == b"hello"


def test_a_host_without_power_sends_nothing_until_it_is_back(simulation: Simulation) -> None:
    serve(simulation, echo)

    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("server", PORT)
        simulation.host("server").power_off()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await reader.read()
        simulation.host("server").power_on()
        await asyncio.sleep(10)
        assert not reader.at_eof()
        writer.write(b"are you there")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    simulation.run(scenario())


def test_a_paused_process_keeps_its_callers_waiting(simulation: Simulation) -> None:
    serve(simulation, echo)

    async def scenario() -> bytes:
        simulation.host("server").pause()
        asking = asyncio.create_task(ask(b"late"))
        await asyncio.sleep(20)
        assert not asking.done()
        simulation.host("server").resume()
        return await asking

    assert simulation.run(scenario()) == b"lateend"


def test_a_link_has_its_own_speed(simulation: Simulation) -> None:
    serve(simulation, echo)
    simulation.network.slow_down("client", "server", Speed(least_ms=500, mean_ms=0, bytes_per_second=1000))
    started = simulation.now
    assert simulation.run(ask(b"x" * 1000)) == b"x" * 1000 + b"end"
    assert 2 < simulation.now - started < 2.1
    simulation.network.slow_down("client", "server", None)
    started = simulation.now
    simulation.run(ask(b""))
    assert simulation.now - started < 0.1


def test_clogged_data_arrives_later_in_order(simulation: Simulation) -> None:
    serve(simulation, echo)

    async def scenario() -> bytes:
        reader, writer = await asyncio.open_connection("server", PORT)
        simulation.network.clog("client", "server", 5)
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.1)
        answer = await reader.readexactly(10)
        writer.close()
        return answer

    assert simulation.run(scenario()) == b"0123456789"
    assert 5 < simulation.now < 6
