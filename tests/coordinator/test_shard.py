"""Shard of the coordinator runtime: load, append, commit and close."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.coordinator import loading
from kwire.coordinator.loading import Loader
from kwire.coordinator.shard import ShardState, Write
from kwire.log.batch_validation import AppendOrigin
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import Record, encode_batch, iterate_headers
from tests.coordinator.shard_bench import WRITE_TIMEOUT_MS, Bench, append, code_of, write
from tests.virtual_loop import virtual_loop


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with virtual_loop() as loop:
        yield Bench(tmp_path / "state-0", loop)


def test_an_empty_partition_is_served_at_once(bench: Bench) -> None:
    async def main() -> None:
        bench.runtime.lead(bench.partition)
        shard = bench.runtime.active(0)
        assert shard.write(write("done", ("a", 1), ("b", 2))) == "done"
        assert shard.machine.numbers == {"a": 1, "b": 2}
        headers = [header for _, header in iterate_headers(bench.partition.log.read(0, 1 << 20))]
        assert [header.record_count for header in headers] == [2], "the records of one write are one batch"

    bench.run(main)


def test_written_records_are_loaded_after_a_restart(bench: Bench) -> None:
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


def test_a_read_that_finds_no_descriptor_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "NO_DESCRIPTOR_PAUSE_SECONDS", 0)
    read = Loader._read
    rejected: list[int] = []

    def scarce(loader: Loader, offset: int) -> bytes:
        if len(rejected) < 2:
            rejected.append(offset)
            raise DiskFullError("open", "a.log", OSError(errno.EMFILE, "Too many open files"))
        return read(loader, offset)

    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        monkeypatch.setattr(Loader, "_read", scarce)
        again = await bench.lead()
        assert (again.machine.numbers, len(rejected)) == ({"a": 1}, 2)

    bench.run(main)


def test_requests_are_rejected_while_a_shard_loads_resigns_or_stops(bench: Bench) -> None:
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


def test_closing_a_shard_fails_the_writes_that_wait_for_a_commit(bench: Bench) -> None:
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


def test_a_write_that_replicas_do_not_confirm_times_out(bench: Bench) -> None:
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
        assert not outcomes, "not committed yet"
        assert not second.done()
        bench.release()
        assert await second == "second"
        assert outcomes == [None]
        assert shard.machine.numbers == {"a": 2}

    bench.run(main)


def test_an_answer_to_a_disconnected_client_is_no_error(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.hold()
        written = shard.write(write("written", ("a", 1)))
        assert isinstance(written, asyncio.Future)
        written.cancel()
        bench.release()
        assert shard.read("read") == "read"

    bench.run(main)


def test_a_rejected_append_changes_nothing(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        config = bench.partition.log.config
        bench.partition.update(dataclasses.replace(bench.partition.image, replicas=(1, 2)), is_led=True)
        bench.partition.log.update_config(dataclasses.replace(config, min_insync_replicas=2))
        outcomes: list[KafkaError | None] = []
        rejected = write("", ("a", 1), outcome=outcomes.append)
        assert code_of(lambda: shard.write(rejected)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [outcome.code for outcome in outcomes if outcome] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        bench.partition.log.update_config(dataclasses.replace(config, max_message_bytes=100))
        assert code_of(lambda: shard.write(write("", ("a" * 200, 1)))) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert shard.machine.numbers == {}
        assert bench.partition.log.log_end_offset == 0

    bench.run(main)


def test_a_write_to_a_failed_disk_gets_not_coordinator(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        bench.disk.fail = lambda operation, path: DiskFailure(operation, path, OSError(5, "I/O error"))
        assert code_of(lambda: shard.write(write("", ("a", 1)))) is ErrorCode.NOT_COORDINATOR
        assert shard.machine.numbers == {}

    bench.run(main)


def test_a_non_atomic_write_may_span_several_batches(bench: Bench) -> None:
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


def test_unknown_record_types_are_skipped_with_one_warning(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        records = [Record(key=key, value=b"1", timestamp=0) for key in (b"?1", b"a", b"?2", b"b")]
        bench.partition.append(memoryview(encode_batch(records)), acks=-1, origin=AppendOrigin.COORDINATOR)
        with caplog.at_level(logging.WARNING):
            shard = await bench.lead()
        assert shard.machine.numbers == {"a": 1, "b": 1}
        reported = [record.getMessage() for record in caplog.records]
        assert reported == [f"{bench.partition.topic}-0: skipped 2 records: a key of a newer version (2)"]

    bench.run(main)


def test_a_log_that_cannot_be_read_closes_its_shard_only(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        bench.partition.log.health.failure = DiskFailure("read", "file", OSError(5, "I/O error"))
        with caplog.at_level(logging.ERROR):
            bench.runtime.lead(bench.partition)
            await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        assert [record.exc_info for record in caplog.records] == [None], "one line without a traceback"
        assert "cannot be loaded" in caplog.text

    bench.run(main)


def test_a_log_that_could_not_be_read_is_loaded_when_its_broker_leads_again(bench: Bench) -> None:
    async def main() -> None:
        shard = await bench.lead()
        shard.write(write("", ("a", 1)))
        bench.runtime.resign(0)
        bench.partition.log.health.failure = DiskFailure("read", "file", OSError(5, "I/O error"))
        bench.runtime.lead(bench.partition)
        await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        bench.partition.log.health.failure = None
        assert (await bench.lead()).machine.numbers == {"a": 1}
        assert await bench.lead() is bench.runtime.active(0), "an active shard stays"
        assert len(bench.machines) == 3

    bench.run(main)


def test_an_undecodable_record_closes_only_its_shard(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        append(bench.partition, encode_batch([Record(key=b"a", value=b"no number", timestamp=0)]))
        with caplog.at_level(logging.ERROR):
            bench.runtime.lead(bench.partition)
            await bench.runtime.loaded()
        assert code_of(lambda: bench.runtime.active(0)) is ErrorCode.NOT_COORDINATOR
        assert "cannot be loaded" in caplog.text

    bench.run(main)


def test_transactional_records_are_applied_at_their_commit_marker(bench: Bench) -> None:
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


def test_loading_a_shard_yields_to_the_event_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for start in range(0, 3000, 500):
            records = [Record(key=b"%d" % n, value=b"1", timestamp=0) for n in range(start, start + 500)]
            append(bench.partition, encode_batch(records))
        # The clock advances by six milliseconds at each read, so a slice has two reads.
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
