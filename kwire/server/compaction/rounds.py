"""Where a round of compaction runs: in a process beside the broker, so that its Python never holds up the event loop.

The process is begun when there is something to compact and ended when there is nothing left. Both sides speak JSON, a
line at a time: a plan goes in with its rate; groups come out as soon as their files are whole, the end last. The end of
its input ends the process, also when the broker was killed: nobody must write beside the next one.
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
from kwire.server.own_processes import command_of, environment

CHILD_MODULE: Final = "kwire.server.compaction.child"
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A group names its segments: this is more than a million of them."""


class RoundFailedError(Exception):
    """A round ended for a reason that is no state of the log or of the disk."""


class Rounds(Protocol):
    """Runs rounds, one at a time."""

    def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        """What run_round reports, but for its progress. Raises what it raises, or RoundFailedError.

        To be closed before the next one is begun.
        """

    async def close(self) -> None:
        """End what runs. A later run begins anew."""


class ProcessRounds:
    """Rounds in a child process."""

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
        except (OSError, RuntimeError, ValueError) as error:  # uvloop says RuntimeError for a pipe that is closed
            raise RoundFailedError(f"the compacting process cannot be spoken to: {error}") from error
        finally:
            if not is_over:  # it may be in the midst of anything
                await self.close()

    async def _living(self) -> asyncio.subprocess.Process:
        """The process; a new one if there is none or somebody ended it since its last round."""
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
                process.kill()  # whatever it was writing is removed by the next round or start
            await process.wait()


class InlineRounds:
    """Rounds on the loop itself, for simulators: their disk is not the machine's, and nobody is kept waiting there."""

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
