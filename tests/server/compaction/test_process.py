"""Compacting process, real and not simulated: its messages, its errors, its exit."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kwire import event_loop
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.log.compaction.plan import CleanedGroup, RoundEnd, RoundPlan
from kwire.log.disk import DiskFailure, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.log_manager import LogManager
from kwire.protocol.compression import Codec
from kwire.protocol.records import BATCH_HEADER_BYTES
from kwire.seams import ThreadWorkers
from kwire.server.compaction import child
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import ProcessRounds, RoundFailedError, _start
from tests.hostile.frames import with_crc
from tests.log.compaction.support import MAP_BYTES, append, candidate_of, swap_in
from tests.log.compaction.test_round import CONFIG
from tests.log.support import NOW_MS, ManualClock, batch, everything, open_at, surroundings
from tests.server.compaction.test_cleaner import SETTINGS as CLEANER_SETTINGS
from tests.support.waiting import eventually

FAST = 1e308


def never(seconds: float) -> bool:
    """Never report that the broker has ended."""
    return False


def filled(directory: Path) -> tuple[RoundPlan, object]:
    log = open_at(directory, CONFIG)
    for index in range(100):
        append(log, (b"%d" % (index % 5), b"x" * 20))
    log.roll()
    candidate = candidate_of(log)
    assert candidate is not None
    return candidate.plan(NOW_MS, MAP_BYTES), log


def wrongly_compressed(directory: Path) -> RoundPlan:
    """Store a batch that cannot be decompressed, as if from before its topic became compacted."""
    log = open_at(directory)
    broken = batch(b"a" * 50, b"b" * 50, codec=Codec.GZIP)
    broken[BATCH_HEADER_BYTES] ^= 0xFF
    log.append(with_crc(broken), leader_epoch=0)
    log.update_config(CONFIG)
    append(log, (b"a", b"x"))
    log.roll()
    candidate = candidate_of(log)
    assert candidate is not None
    return candidate.plan(NOW_MS, MAP_BYTES)


async def reports_of(rounds: ProcessRounds, plan: RoundPlan) -> list[CleanedGroup | RoundEnd]:
    return [report async for report in rounds.run(plan, FAST)]


def test_rounds_run_one_after_another_in_one_process(tmp_path: Path) -> None:
    plan, log = filled(tmp_path / "orders-0")
    missing = RoundPlan.from_json(plan.to_json().replace(b"orders-0", b"nobody-0"))

    async def acts() -> tuple[list[CleanedGroup | RoundEnd], int, int | None]:
        rounds = ProcessRounds()
        try:
            with pytest.raises(DiskFailure, match="No such file"):
                await reports_of(rounds, missing)
            found = await reports_of(rounds, plan)
            assert rounds._process is not None
            first = rounds._process.pid
            assert await reports_of(rounds, plan) == found
            assert rounds._process.pid == first
            process = rounds._process
        finally:
            await rounds.close()
        return found, first, process.returncode

    found, _, code = asyncio.run(acts())
    group, end = found
    assert isinstance(group, CleanedGroup)
    assert isinstance(end, RoundEnd)
    assert (end.end_offset, end.records_read, end.records_written) == (100, 100, 5)
    assert code is not None
    swap_in(log, RealDisk(), group)  # type: ignore[arg-type]
    assert [record.offset for record in everything(log)] == list(range(95, 100))  # type: ignore[arg-type]


def test_the_cleaner_process_reports_a_corrupt_log(tmp_path: Path) -> None:
    plan, _ = filled(tmp_path / "orders-0")
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    async def acts() -> None:
        rounds = ProcessRounds()
        try:
            with pytest.raises(CorruptLogError, match="fails its CRC"):
                await reports_of(rounds, plan)
        finally:
            await rounds.close()

    asyncio.run(acts())


def test_records_that_a_client_compressed_wrongly_fail_the_round(tmp_path: Path) -> None:
    plan = wrongly_compressed(tmp_path / "orders-0")

    async def acts() -> None:
        rounds = ProcessRounds()
        try:
            for _ in range(2):
                with pytest.raises(RoundFailedError, match="CompressionError: invalid gzip data"):
                    await reports_of(rounds, plan)
        finally:
            await rounds.close()

    asyncio.run(acts())


on_both_loops = pytest.mark.parametrize("run", [asyncio.run, event_loop.run])


@on_both_loops
def test_a_process_that_was_ended_between_two_rounds_is_replaced(tmp_path: Path, run: Callable[..., int]) -> None:
    plan, _ = filled(tmp_path / "orders-0")

    async def acts() -> int:
        rounds = ProcessRounds()
        try:
            await reports_of(rounds, plan)
            assert rounds._process is not None
            rounds._process.kill()
            await rounds._process.wait()
            return len(await reports_of(rounds, plan))
        finally:
            await rounds.close()

    assert run(acts()) == 2


@on_both_loops
def test_a_process_that_dies_fails_its_round_and_the_next_one_has_another(
    tmp_path: Path, run: Callable[..., int]
) -> None:
    plan, _ = filled(tmp_path / "orders-0")

    async def acts() -> int:
        rounds = ProcessRounds()
        try:
            await reports_of(rounds, plan)
            assert rounds._process is not None
            process = rounds._process
            process.send_signal(signal.SIGSTOP)
            failing = asyncio.get_running_loop().create_task(reports_of(rounds, plan))
            await asyncio.sleep(0)
            process.kill()
            with pytest.raises(RoundFailedError):
                await failing
            return len(await reports_of(rounds, plan))
        finally:
            await rounds.close()

    assert run(acts()) == 2


def test_a_round_ends_when_the_broker_ends(tmp_path: Path) -> None:
    plan, _ = filled(tmp_path / "orders-0")
    command = json.dumps({"bytes_per_second": FAST, "plan": json.loads(plan.to_json())}).encode()
    reports = io.BytesIO()
    pace = child.Pace(FAST, lambda seconds: True)
    pace.moved(child.WATCH_BYTES - 1)
    with pytest.raises(BrokenPipeError):
        pace.moved(1)
    child.serve(io.BytesIO(command + b"\n"), reports, RealDisk(), never)
    assert [next(iter(json.loads(line))) for line in reports.getvalue().splitlines()] == ["group", "end"]


def test_the_cleaner_process_keeps_its_io_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    waited: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 2

    pace = child.Pace(1000.0, wait)
    pace.moved(500)
    now[0] = 2.0
    pace.moved(1000)
    assert waited == [0.5]
    with pytest.raises(BrokenPipeError):
        pace.moved(1000)


def test_a_process_that_waits_ends_with_its_broker(tmp_path: Path) -> None:
    plan, _ = filled(tmp_path / "orders-0")

    async def acts() -> int:
        process = await _start()
        assert process.stdin is not None
        command = {"bytes_per_second": 1.0, "plan": json.loads(plan.to_json())}
        process.stdin.write(json.dumps(command).encode() + b"\n")
        await process.stdin.drain()
        process.stdin.close()
        return await process.wait()

    assert asyncio.run(acts()) == 0


@pytest.mark.parametrize(
    ("plan_of", "kind"),
    [
        (lambda plan: plan.to_json().replace(b"orders-0", b"nobody-0"), "disk"),
        (lambda plan: plan.to_json().replace(b"orders-0", b"broken-0"), "corrupt"),
    ],
)
def test_a_failed_round_is_reported_and_the_next_plan_is_run(
    tmp_path: Path, plan_of: Callable[[RoundPlan], bytes], kind: str
) -> None:
    plan, _ = filled(tmp_path / "orders-0")
    filled(tmp_path / "broken-0")
    path = tmp_path / "broken-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    commands = [
        json.dumps({"bytes_per_second": FAST, "plan": json.loads(each)}).encode() + b"\n"
        for each in (plan_of(plan), plan.to_json())
    ]
    reports = io.BytesIO()
    child.serve(io.BytesIO(b"".join(commands)), reports, RealDisk(), never)
    reported = [json.loads(line) for line in reports.getvalue().splitlines()]
    assert [next(iter(each)) for each in reported] == [kind, "group", "end"]
    if kind == "disk":
        failure = reported[0]["disk"]
        assert (failure["number"], failure["is_full"]) == (errno.ENOENT, False)


def test_a_round_that_fails_on_client_records_is_reported(tmp_path: Path) -> None:
    plan = json.loads(wrongly_compressed(tmp_path / "orders-0").to_json())
    command = json.dumps({"bytes_per_second": FAST, "plan": plan}).encode() + b"\n"
    reports = io.BytesIO()
    child.serve(io.BytesIO(command), reports, RealDisk(), never)
    assert "gzip" in json.loads(reports.getvalue())["failed"]["message"]


def test_a_pipe_that_is_closed_fails_the_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = filled(tmp_path / "orders-0")

    async def acts() -> None:
        rounds = ProcessRounds()
        try:
            process = await rounds._living()
            assert process.stdin is not None

            def write(data: bytes) -> None:
                raise RuntimeError("unable to perform operation; the handler is closed")

            monkeypatch.setattr(process.stdin, "write", write)
            with pytest.raises(RoundFailedError, match="the compacting process cannot be spoken to"):
                await reports_of(rounds, plan)
            assert process.returncode is not None, "it is not used again"
            assert len(await reports_of(rounds, plan)) == 2
        finally:
            await rounds.close()

    asyncio.run(acts())


@on_both_loops
def test_a_topic_deleted_during_its_round_does_not_affect_others(tmp_path: Path, run: Callable[..., None]) -> None:
    """Remaining reports about the first log must not count for the second one."""
    logs = LogManager([str(tmp_path)], surroundings())
    config = replace(CONFIG, segment_bytes=20_000)
    logs.load_all(lambda _: config)
    first, second = (logs.get_or_create(topic, 0, config, None) for topic in ("first", "second"))
    for log, count in ((first, 500), (second, 300)):  # the first has the higher dirty ratio
        for index in range(count):
            append(log, (b"%d" % index, b"x" * 200))
        log.roll()
        append(log, (b"z", b"z"))
        log.flush()

    async def acts() -> None:
        rounds = ProcessRounds()
        workers = ThreadWorkers()
        cleaner = LogCleaner(
            CleanerParts(
                settings=CurrentSettings(default_settings() | CLEANER_SETTINGS),
                logs=logs,
                disk=RealDisk(),
                clock=ManualClock(),
                workers=workers,
                rounds=rounds,
                last_stable_offset_of=lambda log: log.log_end_offset,
            )
        )
        task = asyncio.create_task(cleaner.run())
        while not list(tmp_path.glob("first-0/*.deleted")):
            await asyncio.sleep(0)
        logs.delete("first", 0)
        while second.offsets.first_dirty < 300:
            assert second.failure is None
            assert not task.done()
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        workers.close()

    run(acts())
    assert [record.offset for record in everything(second)] == list(range(301))


KILLED = """
import asyncio, json, os, sys
from kwire.server.compaction.rounds import _start
async def main():
    process = await _start()
    if os.fork() == 0:  # has the pipe, too
        os.setsid()
        sys.stdin.read()
        os._exit(0)
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process ends with the fork")
def test_a_fork_of_a_killed_program_does_not_keep_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdin is not None
        compacting = Path(f"/proc/{run.stdout.readline().strip()}")
        run.wait(60)
        eventually(lambda: not compacting.exists(), "the end of the process")
        run.stdin.close()
