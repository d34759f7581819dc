"""Log cleaner: selects the dirtiest compacted log, runs a round, swaps its segments in, and writes the checkpoint.

One round runs at a time, whatever log.cleaner.threads says; as in Kafka, that setting divides
log.cleaner.dedupe.buffer.size. An error of one log leaves the log unchanged. The cleaner retries after a full disk. A
damaged batch takes its replica offline, and any other disk failure the directory.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from kwire.chunks import in_turns
from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.log.checkpoints import CLEANER_FILE
from kwire.log.compaction.candidates import Candidate, dirtiest
from kwire.log.compaction.plan import CleanedGroup, RoundEnd, RoundPlan
from kwire.log.compaction.swap import Swap
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError
from kwire.log.log_directory import LogDirectory
from kwire.log.log_manager import LogManager
from kwire.log.not_ready import ready_in_steps
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Clock, Workers
from kwire.server.compaction.rounds import RoundFailedError, Rounds

logger = logging.getLogger(__name__)

MAP_BYTES_MAX: Final = 2**31 - 1
ROUNDS_TRIED: Final = 3
"""Attempts for one log: a process may be killed for its memory, or fail to start. After these, it is not cleaned."""
PAUSE_SECONDS_LEAST: Final = 0.05
"""Shortest pause, whatever log.cleaner.backoff.ms says: no log needs cleaning then."""
CHECKED_AT_ONCE: Final = 50
"""Logs that are checked before requests may be served again."""


class _OvertakenError(Exception):
    """Error of a log that was truncated, deleted or moved during its round; the result is useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Settings of the log cleaner."""

    backoff_ms: int = setting("log.cleaner.backoff.ms")
    dedupe_buffer_bytes: int = setting("log.cleaner.dedupe.buffer.size")
    threads: int = setting("log.cleaner.threads")
    load_factor: float = setting("log.cleaner.io.buffer.load.factor")
    bytes_per_second_max: float = setting("log.cleaner.io.max.bytes.per.second")


@dataclass(slots=True, kw_only=True)
class CleanerParts:
    """Parts of the broker that the cleaner uses."""

    settings: CurrentSettings
    logs: LogManager
    disk: Disk
    clock: Clock
    workers: Workers
    rounds: Rounds
    last_stable_offset_of: Callable[[PartitionLog], int]


class LogCleaner:
    """Log cleaner of one broker."""

    def __init__(self, parts: CleanerParts) -> None:
        self._parts = parts
        self._failures: dict[PartitionLog, int] = {}
        """Consecutive rounds of a log that failed for an unknown reason, up to ROUNDS_TRIED."""
        self._wake = asyncio.Event()
        self._are_settings_new = False

    @property
    def _settings(self) -> CleanerSettings:
        return self._parts.settings.of(CleanerSettings)

    def partition_removed(self, partition: object) -> None:
        """Rewrite the checkpoint at once, without the removed partition."""
        self._wake.set()

    def settings_changed(self) -> None:
        """Check all logs again at once: the pause may have changed, and failed rounds may succeed."""
        self._failures.clear()
        self._are_settings_new = True
        self._wake.set()

    async def run(self) -> None:
        """Clean logs endlessly, until the task is cancelled."""
        try:
            while True:
                self._wake.clear()
                self._are_settings_new = False
                await self._forget_deleted()
                if not await self.clean_dirtiest():
                    await self._parts.rounds.close()
                    await self._pause()
        finally:
            await self._parts.rounds.close()

    async def _pause(self) -> None:
        """Wait until the next check of all logs; meanwhile remove deleted logs from checkpoints."""
        seconds = max(self._settings.backoff_ms / 1000.0, PAUSE_SECONDS_LEAST)
        end = asyncio.get_running_loop().time() + seconds
        with suppress(TimeoutError):
            while not self._are_settings_new:
                async with asyncio.timeout_at(end):
                    await self._wake.wait()
                self._wake.clear()
                await self._forget_deleted()

    # Rounds

    async def clean_dirtiest(self) -> bool:
        """Run a round if a log needs it. Return False if none does, or if a wait is better."""
        if not self._bytes_per_second() > 0.0:  # neither for NaN
            return False
        found: list[PartitionLog] = []
        best: Candidate | None = None
        logs = [log for log in self._parts.logs.logs() if log.config.is_compacted and not self._is_given_up(log)]
        for start in range(0, len(logs), CHECKED_AT_ONCE):
            best = await self._dirtiest([*found, *logs[start : start + CHECKED_AT_ONCE]])
            found = [] if best is None else [best.log]
            await asyncio.sleep(0)
        if best is not None:  # requests were served meanwhile
            best = await self._dirtiest(found)
        return best is not None and await self._clean(best)

    async def _dirtiest(self, logs: Sequence[PartitionLog]) -> Candidate | None:
        parts = self._parts

        def dirtiest_now() -> Candidate | None:
            held = (log for log in logs if parts.logs.is_current(log))
            return dirtiest(held, parts.last_stable_offset_of, parts.clock.wall_ms())

        return await in_turns(ready_in_steps(dirtiest_now))

    async def _clean(self, candidate: Candidate) -> bool:
        log = candidate.log
        try:
            await self._run_round(candidate)
        except _OvertakenError:
            logger.info("The cleaning of %s-%s was overtaken", log.topic, log.partition)
        except DiskFullError as full:
            logger.warning("The disk is full: %s; %s-%s is cleaned later", full, log.topic, log.partition)
            return False
        except CorruptLogError as error:
            if self._parts.logs.is_current(log):
                log.health.damaged(error)
        except DiskFailure as failure:
            if self._parts.logs.is_current(log):
                log.health.fail(failure)
        except KafkaError as error:
            logger.warning("%s-%s is not cleaned: %s", log.topic, log.partition, error)  # it is offline
        except RoundFailedError as error:
            self._failures[log] = self._failures.get(log, 0) + 1
            later = "any more" if self._is_given_up(log) else "now"
            logger.error("%s-%s is not cleaned %s: %s", log.topic, log.partition, later, error)  # noqa: TRY400
            return False
        else:
            self._failures.pop(log, None)
        return True

    def _is_given_up(self, log: PartitionLog) -> bool:
        """Return True if the log is not cleaned any more until the next start."""
        return self._failures.get(log, 0) >= ROUNDS_TRIED

    async def _run_round(self, candidate: Candidate) -> None:
        parts, log = self._parts, candidate.log
        plan = await self._plan(candidate)
        waiting = {segment.base_offset: segment for segment in log.segments}
        logger.info("Beginning cleaning of log %s-%s", log.topic, log.partition)
        try:
            # Close the generator in any case: its remaining reports must not be read as the next round's.
            async with aclosing(parts.rounds.run(plan, self._bytes_per_second())) as reports:
                async for report in reports:
                    if isinstance(report, CleanedGroup):
                        await self._swap_in(candidate, report)
                        for base_offset in report.sources:
                            del waiting[base_offset]
                    else:
                        await self._finish(candidate, report)
        except (CorruptLogError, DiskFailure, RoundFailedError) as error:
            if self._is_overtaken(candidate) or not set(waiting.values()).issubset(log.segments):
                raise _OvertakenError from error  # its files were missing or truncated for that reason
            raise

    async def _plan(self, candidate: Candidate) -> RoundPlan:
        """Return the plan, after the aborted transactions were compared with the log."""
        changes = candidate.log.segments.changes

        def plan_now() -> RoundPlan:
            if self._is_overtaken(candidate) or candidate.log.segments.changes != changes:
                raise _OvertakenError
            return candidate.plan(self._parts.clock.wall_ms(), self._map_bytes())

        return await in_turns(ready_in_steps(plan_now))

    def _map_bytes(self) -> int:
        settings = self._settings
        share = settings.dedupe_buffer_bytes // max(1, settings.threads)
        map_bytes = share * settings.load_factor
        if map_bytes > MAP_BYTES_MAX:
            return MAP_BYTES_MAX
        return int(map_bytes) if map_bytes > 1.0 else 1  # for 0 or NaN: one batch at a time

    def _bytes_per_second(self) -> float:
        return min(self._settings.bytes_per_second_max, sys.float_info.max)

    async def _swap_in(self, candidate: Candidate, group: CleanedGroup) -> None:
        parts = self._parts
        swap = Swap(candidate.log, parts.disk, group, candidate.truncations)
        try:
            if not swap.is_overtaken():
                swap.decide()
                await parts.workers.run(swap.sync)
        except DiskFullError:
            swap.discard()
            raise
        if swap.is_overtaken() or self._is_overtaken(candidate):
            swap.discard()
            raise _OvertakenError
        parts.logs.directories.remove_later(swap.replace(parts.clock.wall_ms()))
        try:
            await parts.workers.run(swap.sync)
        except asyncio.CancelledError:
            swap.sync()
            swap.drop_suffix()
            raise
        swap.drop_suffix()

    async def _finish(self, candidate: Candidate, end: RoundEnd) -> None:
        log = candidate.log
        if self._is_overtaken(candidate):  # after its last group
            raise _OvertakenError
        log.offsets.cleaned(max(log.offsets.first_dirty, end.end_offset))
        logger.info(
            "Log cleaner thread 0 cleaned log %s-%s (dirty section = [%s, %s]): %s keys, %s of %s records and %s of %s "
            "bytes are left",
            log.topic,
            log.partition,
            candidate.first_dirty_offset,
            end.end_offset,
            end.keys,
            end.records_written,
            end.records_read,
            end.bytes_written,
            end.bytes_read,
        )
        if end.keyless_records:
            logger.warning("%s records of %s-%s had no key", end.keyless_records, log.topic, log.partition)
        await self._write_checkpoint(self._parts.logs.directories.directory_of(log))

    def _is_overtaken(self, candidate: Candidate) -> bool:
        return (
            not self._parts.logs.is_current(candidate.log) or candidate.log.offsets.truncations != candidate.truncations
        )

    # Checkpoints

    async def _forget_deleted(self) -> None:
        """Remove deleted logs from checkpoints: a new topic of the same name must not get the old one's entry."""
        for directory in self._parts.logs.directories:
            if directory.has_deleted_names:
                await self._write_checkpoint(directory)
        self._failures = {log: count for log, count in self._failures.items() if self._parts.logs.is_current(log)}

    async def _write_checkpoint(self, directory: LogDirectory) -> None:
        """Write the cleaner checkpoint of a directory durably; a failing directory goes offline."""
        while not directory.is_offline:
            job = directory.checkpoint_job(self._parts.disk, CLEANER_FILE, {})
            await self._parts.workers.run(job.run)
            self._parts.logs.directories.finish_checkpoint(job)
            if job.number == directory.checkpoints_written:  # no log was truncated or deleted while a worker wrote
                return
