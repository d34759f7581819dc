"""Output memory: unread responses of all connections are bounded, and the allocator returns the memory of a peak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.server.network.memory.memory_return import STEP_BYTES, MemoryReturn
from kwire.server.network.memory.output_memory import RESPONSE_BYTES_MIN, OutputMemory
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

READERS = 30
MEGABYTE = 1024 * 1024


class Writer:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.dropped = ""

    def close_now(self, why: str) -> None:
        self.dropped = why


def test_the_connection_that_has_not_drained_for_longest_is_dropped() -> None:
    memory = OutputMemory(100)
    first, second, third = Writer(60), Writer(30), Writer(30)
    for writer in (first, second, third):
        memory.set_unsent(writer, writer.unsent_bytes)
    assert [bool(writer.dropped) for writer in (first, second, third)] == [True, False, False]
    assert memory.used_bytes == 60


def test_a_draining_connection_is_not_dropped() -> None:
    memory = OutputMemory(100)
    first, second = Writer(60), Writer(60)
    memory.set_unsent(first, 60)
    first.unsent_bytes = 10
    memory.set_unsent(second, 60)
    assert not first.dropped
    memory.release(first)
    assert memory.used_bytes == 60


def test_a_single_connection_may_exceed_the_limit() -> None:
    memory = OutputMemory(100)
    only = Writer(1000)
    memory.set_unsent(only, 1000)
    assert not only.dropped


def test_answers_become_smaller_as_the_limit_comes_near() -> None:
    memory = OutputMemory(40 * MEGABYTE)
    assert memory.response_bytes_max() == 10 * MEGABYTE
    memory.set_unsent(Writer(20 * MEGABYTE), 20 * MEGABYTE)
    memory.reserve(12 * MEGABYTE)
    assert memory.response_bytes_max() == 2 * MEGABYTE
    memory.reserve(8 * MEGABYTE)
    assert memory.response_bytes_max() == RESPONSE_BYTES_MIN
    memory.release_reserved(20 * MEGABYTE)
    assert memory.response_bytes_max() == 5 * MEGABYTE
    with pytest.raises(AssertionError):
        memory.release_reserved(1)


@pytest.fixture(params=[0, 300], ids=["at once", "after a wait"])
def wait_ms(request: pytest.FixtureRequest) -> Iterator[int]:
    yield request.param


def test_row_40_many_slow_readers_do_not_fill_the_memory(tmp_path: Path, wait_ms: int) -> None:
    """Each client requests 20 MB and reads no response."""
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client, max_message_bytes=2 * MEGABYTE)
        for _ in range(20):
            produce(client, topic, batch(bytes(1_000_000)))
        slow = [broker.client(receive_buffer=4096) for _ in range(READERS)]
        poll = fetch_request(
            topic,
            partition_max_bytes=20 * MEGABYTE,
            max_bytes=20 * MEGABYTE if wait_ms == 0 else 100 * MEGABYTE,
            max_wait_ms=wait_ms,
            min_bytes=1 if wait_ms == 0 else 100 * MEGABYTE,
        )
        for reader in slow:
            reader.send_bytes(reader.frame(poll, 12))
        output = broker.server._listeners.output
        eventually(lambda: broker.call(lambda: output.used_bytes) > output.limit_bytes // 2, "answers to pile up")
        unsent = broker.call(lambda: sum(each.unsent_bytes for each in broker.server._listeners.table.connections))
        assert unsent < output.limit_bytes + 20 * MEGABYTE
        assert len(fetch(client, topic).records) >= 1_000_000, "a reader that reads is served"
        for reader in slow:
            reader.close()
        eventually(lambda: broker.call(lambda: output.used_bytes + output.reserved_bytes) == 0, "all to be given back")


def test_memory_is_given_back_while_the_process_is_larger_than_it_was() -> None:
    size = [100]
    kept = [0]

    def trim(pad: int) -> int:
        size[0] = kept[0]
        return pad + 1

    memory = MemoryReturn(trim=trim, resident=lambda: size[0])

    def due() -> bool:
        return memory.is_due

    assert not due()
    size[0], kept[0] = 100 + 2 * STEP_BYTES, 100 + STEP_BYTES
    assert due()
    memory.give_back()
    assert [due(), size[0]] == [True, kept[0]], "it may still be in use"
    memory.give_back()
    assert [due(), due()] == [False, True], "asked in vain: a longer pause"
    kept[0] = 90
    memory.give_back()
    assert not due()
    size[0] = 90 + STEP_BYTES
    assert due()
