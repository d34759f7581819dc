"""A shard of the coordinator runtime, with a machine that adds numbers up."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.group_commit import Flushed, GroupCommit
from kwire.cluster.image import PartitionImage
from kwire.cluster.partition import Partition
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.coordinator.shard import Shard, ShardState, Write
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.error_codes import ErrorCode, KafkaError, UnknownRecordTypeError
from kwire.protocol.records import Record, encode_batch, iterate_headers
from tests.coordinator.world import topic_image
from tests.log.faults import FaultyDisk
from tests.log.support import open_at, surroundings
from tests.support.metadata import Alone
from tests.virtual_loop import VirtualClock, VirtualLoop, virtual_loop

Number = tuple[str, int | None]


class SumMachine:
    """Key -> number; None forgets it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, list[Number]] = {}
        self.life: list[str] = []

    def encode(self, record: Number) -> tuple[bytes, bytes | None]:
        key, value = record
        return key.encode(), None if value is None else str(value).encode()

    def decode(self, key: bytes, value: bytes | None) -> Number:
        if key.startswith(b"?"):
            raise UnknownRecordTypeError("a key of a newer version")
        return key.decode(), None if value is None else int(value)

    def replay(self, record: Number, offset: int, producer_id: int) -> None:
        assert offset >= 0
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(record)
            return
        key, value = record
        if value is None:
            self.numbers.pop(key, None)
        else:
            self.numbers[key] = value

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self.pending.pop(producer_id, [])
        for record in pending if is_commit else []:
            self.replay(record, 0, -1)

    def loaded(self) -> None:
        self.life.append("loaded")

    def unloaded(self) -> None:
        self.life.append("unloaded")


WRITE_TIMEOUT_MS = 10_000


class NoGroupCommit(GroupCommit):
    """Never flushes: what an append must wait for comes when a test says so."""

    def __init__(self) -> None:
        """Without logs and workers."""

    def request(self, partition: Flushed) -> None:
        """Nothing."""


class Bench:
    """A runtime with one partition, on a virtual loop."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.directory = directory
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.machines: list[SumMachine] = []
        self.disk = FaultyDisk()
        self.partition = self.open_partition()
        self.runtime: CoordinatorRuntime[Number, SumMachine] = CoordinatorRuntime(
            make=lambda _: self.make(), clock=self.clock, write_timeout_ms=WRITE_TIMEOUT_MS
        )

    def make(self) -> SumMachine:
        self.machines.append(SumMachine())
        return self.machines[-1]

    def open_partition(self) -> Partition:
        image: PartitionImage = topic_image("state", 1, 1).partitions[0]
        log = open_at(self.directory, world=surroundings(disk=self.disk))
        return Partition(
            topic="state",
            topic_id=UUID(int=1),
            index=0,
            image=image,
            log=log,
            group_commit=NoGroupCommit(),
            peers=Alone(),
        )

    def hold(self) -> None:
        """From now on the high watermark moves when `release` says so, as with a replica that lags behind."""
        log = self.partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=1))

    def release(self) -> None:
        log = self.partition.log
        log.update_config(dataclasses.replace(log.config, flush_messages=LogConfig().flush_messages))
        log.flush()
        self.partition.flushed()

    async def lead(self) -> Shard[Number, SumMachine]:
        self.runtime.lead(self.partition)
        await self.runtime.loaded()
        return self.runtime.active(0)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def call() -> None:
            await main()

        self.loop.run_until_complete(call())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with virtual_loop() as loop:
        yield Bench(tmp_path / "state-0", loop)


def write(answer: str, *records: Number, **more: Any) -> Write[Number, str]:
    return Write(answer=answer, records=records, **more)


def test_an_empty_partition_is_served_at_once(bench: Bench) -> None:
    async def main() -> None:
        bench.runtime.lead(bench.partition)
        shard = bench.runtime.active(0)
        assert shard.write(write("done", ("a", 1), ("b", 2))) == "done"
        assert shard.machine.numbers == {"a": 1, "b": 2}
        headers = [header for _, header in iterate_headers(bench.partition.log.read(0, 1 << 20))]
        assert [header.record_count for header in headers] == [2], "the records of one write are one batch"

    bench.run(main)


def test_what_was_written_is_loaded_again(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1), ("b", 2)))
        shard.write(write("", ("a", None), ("c", 3)))
        bench.runtime.resign(0)
        assert shard.machine.life == ["loaded", "unloaded"]
        again = await bench.lead()
        assert again.machine is not shard.machine
        assert again.machine.numbers == {"b": 2, "c": 3}
        assert again.machine.life == ["loaded"]

    bench.run(main)


def test_requests_are_sent_away_while_loading_and_afterwards(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        bench.runtime.lead(bench.partition)
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await bench.runtime.loaded()
        assert bench.runtime.active(0).machine.numbers == {"a": 1}
        bench.runtime.stop()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.run(main)


def test_loading_can_be_given_up(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        bench.runtime.lead(bench.partition)
        loading = bench.runtime.find(0)
        assert loading is not None
        bench.runtime.resign(0)
        await bench.runtime.loaded()
        assert loading.state is ShardState.CLOSED
        assert loading.machine.life == ["unloaded"]

    bench.run(main)


def test_an_answer_waits_until_its_records_are_committed(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.hold()
        outcomes: list[KafkaError | None] = []
        written = shard.write(write("written", ("a", 1), outcome=outcomes.append))
        assert isinstance(written, asyncio.Future)
        assert shard.machine.numbers == {"a": 1}, "later requests build on it"
        read = shard.read("read")
        assert isinstance(read, asyncio.Future), "what was read is not committed either"
        await asyncio.sleep(1)
        assert not written.done()
        assert not outcomes
        bench.release()
        assert await written == "written"
        assert await read == "read"
        assert outcomes == [None]
        assert shard.read("now") == "now"
        assert shard.write(write("now", ("b", 1))) == "now"

    bench.run(main)


def test_who_waits_for_a_commit_learns_that_the_shard_is_gone(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.hold()
        outcomes: list[KafkaError | None] = []
        written = shard.write(write("written", ("a", 1), outcome=outcomes.append))
        assert isinstance(written, asyncio.Future)
        bench.runtime.resign(0)
        with pytest.raises(KafkaError) as raised:
            await written
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert outcomes == [raised.value]

    bench.run(main)


def test_a_client_waits_for_replicas_for_so_long(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.hold()
        outcomes: list[KafkaError | None] = []
        first = shard.write(write("first", ("a", 1), outcome=outcomes.append))
        await asyncio.sleep(WRITE_TIMEOUT_MS / 2000)
        second = shard.write(write("second", ("a", 2)))
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        with pytest.raises(KafkaError) as raised:
            await first
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not outcomes, "nobody knows yet"
        assert not second.done()
        bench.release()
        assert await second == "second"
        assert outcomes == [None]
        assert shard.machine.numbers == {"a": 2}

    bench.run(main)


def test_an_answer_whose_client_has_gone_is_no_error(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.hold()
        written = shard.write(write("written", ("a", 1)))
        assert isinstance(written, asyncio.Future)
        written.cancel()
        bench.release()
        assert shard.read("read") == "read"

    bench.run(main)


def test_a_refused_append_changes_nothing(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        config = bench.partition.log.config
        bench.partition.update(dataclasses.replace(bench.partition.image, replicas=(1, 2)), is_led=True)
        bench.partition.log.update_config(dataclasses.replace(config, min_insync_replicas=2))
        outcomes: list[KafkaError | None] = []
        refused = write("", ("a", 1), outcome=outcomes.append)
        assert code_of(lambda: shard.write(refused)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [outcome.code for outcome in outcomes if outcome] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        bench.partition.log.update_config(dataclasses.replace(config, max_message_bytes=100))
        assert code_of(lambda: shard.write(write("", ("a" * 200, 1)))) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert shard.machine.numbers == {}
        assert bench.partition.log.log_end_offset == 0

    bench.run(main)


def test_a_failed_disk_is_no_coordinator(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.disk.fail = lambda operation, path: DiskFailure(operation, path, OSError(5, "I/O error"))
        assert code_of(lambda: shard.write(write("", ("a", 1)))) is ErrorCode.NOT_COORDINATOR
        assert shard.machine.numbers == {}

    bench.run(main)


def test_records_that_need_not_come_together_fill_several_batches(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        log = bench.partition.log
        log.update_config(dataclasses.replace(log.config, max_message_bytes=1000))
        records = [(f"key-{number}", number) for number in range(200)]
        assert code_of(lambda: shard.write(write("", *records))) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert shard.write(write("done", *records, atomic=False)) == "done"
        assert shard.machine.numbers == dict(records)
        sizes = [header.size_in_bytes for _, header in iterate_headers(log.read(0, 1 << 20))]
        assert len(sizes) > 1
        assert max(sizes) <= 1000

    bench.run(main)


def test_timed_steps_are_written_while_the_shard_is_active(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.timers.schedule("a", 100, lambda: Write(answer=None, records=[("a", 1)]))
        shard.timers.schedule("b", 200, lambda: Write(answer=None, records=[("b", 1)]))
        await asyncio.sleep(0.15)
        bench.runtime.resign(0)
        await asyncio.sleep(1)
        assert shard.machine.numbers == {"a": 1}
        assert len(shard.timers) == 0

    bench.run(main)


def test_unknown_records_are_skipped_once_aloud(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        records = [Record(key=key, value=b"1", timestamp=0) for key in (b"?1", b"a", b"?2", b"b")]
        bench.partition.append(memoryview(encode_batch(records)), acks=-1, origin=AppendOrigin.COORDINATOR)
        with caplog.at_level(logging.WARNING):
            shard = await bench.lead()
        assert shard.machine.numbers == {"a": 1, "b": 1}
        assert len(caplog.records) == 1

    bench.run(main)


def test_a_log_that_cannot_be_read_closes_its_shard_only(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        bench.partition.log.failure = DiskFailure("read", "file", OSError(5, "I/O error"))
        with caplog.at_level(logging.ERROR):
            bench.runtime.lead(bench.partition)
            await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        assert "cannot be loaded" in caplog.text

    bench.run(main)


def test_records_that_mean_nothing_close_their_shard_only(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        append(bench.partition, encode_batch([Record(key=b"a", value=b"no number", timestamp=0)]))
        with caplog.at_level(logging.ERROR):
            bench.runtime.lead(bench.partition)
            await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        assert "cannot be loaded" in caplog.text

    bench.run(main)


def test_transactional_records_count_when_their_marker_comes(bench: Bench) -> None:
    async def main() -> None:
        for producer_id, is_commit in ((7, True), (8, False), (9, None)):
            key = f"of-{producer_id}".encode()
            append(
                bench.partition,
                encode_batch(
                    [Record(key=key, value=b"1", timestamp=0)],
                    transactional=True,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                ),
            )
            if is_commit is not None:
                marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0)
                append(
                    bench.partition,
                    encode_marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=0),
                )
        shard = await bench.lead()
        assert shard.machine.numbers == {"of-7": 1}
        assert list(shard.machine.pending) == [9]

    bench.run(main)


def test_loading_leaves_the_loop_to_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for start in range(0, 3000, 500):
            records = [Record(key=b"%d" % n, value=b"1", timestamp=0) for n in range(start, start + 500)]
            append(bench.partition, encode_batch(records))
        # Each look at the clock finds that six milliseconds have gone by: a slice is two looks.
        ticks = iter(range(0, 1_000_000, 6))
        monkeypatch.setattr(bench.clock, "monotonic_ms", lambda: float(next(ticks)))
        turns = 0
        bench.runtime.lead(bench.partition)
        while bench.runtime.find(0).state is ShardState.LOADING:  # type: ignore[union-attr]
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 3000 // 64 // 2
        assert len(bench.runtime.active(0).machine.numbers) == 3000

    bench.run(main)


def append(partition: Partition, batch: bytearray) -> None:
    partition.append(memoryview(batch), acks=-1, origin=AppendOrigin.COORDINATOR)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code
