"""Execution of compaction rounds in a separate process, so that their Python code never blocks the event loop.

The process is started when a log needs compaction, and ended when none does. Both sides send lines of JSON. A plan is
sent with its rate. The process reports groups as soon as their files are complete, and the end last. The end of its
input ends the process, also when the broker was killed: it must not write next to its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator
from typing import Any, Final, Protocol

from kwire.log.compaction.plan import CleanedGroup, Progress, RoundEnd, RoundPlan
from kwire.log.compaction.round import run_round
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError
from kwire.own_processes import command_of, environment

CHILD_MODULE: Final = "kwire.server.compaction.child"
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longest line: a group names its segments, and this is enough for more than a million of them."""


class RoundFailedError(Exception):
    """Error of a round whose reason is neither the log nor the disk."""


class Rounds(Protocol):
    """Executor of rounds, one at a time."""

    def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        """Yield the reports of run_round except progress. Raises its exceptions, or RoundFailedError.

        The generator must be closed before the next run.
        """

    async def close(self) -> None:
        """End a running round. A later run starts a new process."""


class ProcessRounds:
    """Executor of rounds in a child process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        is_over = False
        try:
            process = await self._living()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(
                f'{{"bytes_per_second": {bytes_per_second!r}, "plan": '.encode() + plan.to_json() + b"}\n"
            )
            await process.stdin.drain()
            while not is_over:
                report = _report(await process.stdout.readline())
                is_over = isinstance(report, RoundEnd)
                yield report
        except (OSError, RuntimeError, ValueError) as error:  # uvloop raises RuntimeError for a closed pipe
            raise RoundFailedError(f"the compacting process cannot be spoken to: {error}") from error
        finally:
            if not is_over:  # its state is unknown
                await self.close()

    async def _living(self) -> asyncio.subprocess.Process:
        """Return the process; start a new one if there is none, or if it has ended since its last round."""
        process = self._process
        if process is not None and (
            process.returncode is not None or process.stdin is None or process.stdin.is_closing()
        ):
            await self.close()
        if self._process is None:
            self._process = await _start()
        return self._process

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # the next round or start removes its unfinished files
            await process.wait()


class InlineRounds:
    """Executor of rounds on the event loop, for simulators: their disk is simulated, and blocking does not matter."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        for report in run_round(self._disk, plan):
            if isinstance(report, Progress):
                await asyncio.sleep(report.bytes_moved / bytes_per_second)
            else:
                yield report

    async def close(self) -> None:
        pass


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command_of(CHILD_MODULE, str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
        env=environment(),
    )


def _report(line: bytes) -> CleanedGroup | RoundEnd:
    if not line.endswith(b"\n"):
        raise RoundFailedError("the compacting process ended before its round")
    ((kind, fields),) = json.loads(line).items()
    if kind == "group":
        return CleanedGroup(sources=tuple(fields))
    if kind == "end":
        return RoundEnd(**fields)
    raise _error(kind, fields)


def _error(kind: str, fields: dict[str, Any]) -> Exception:
    if kind == "corrupt":
        return CorruptLogError(fields["message"])
    if kind == "disk":
        error = OSError(fields["number"], fields["message"])
        failure = DiskFullError if fields["is_full"] else DiskFailure
        return failure(fields["operation"], fields["path"], error)
    return RoundFailedError(fields["message"])
