"""Compaction process: python -m kwire.server.compaction.child. kwire.server.compaction.rounds starts it.

It accesses files through the same interface as the broker, and writes only .cleaned files in its plan's directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO, Final

from kwire.log.compaction.plan import CleanedGroup, Progress, Report, RoundPlan
from kwire.log.compaction.round import run_round
from kwire.log.disk import Disk, DiskFailure, DiskFullError, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.protocol.compression import CompressionError

NICENESS: Final = 5
"""Niceness of the process: requests have priority."""
OPEN_FILES_MAX: Final = 64
SELECT_SECONDS_MAX: Final = 3600.0 * 24
"""Longest single wait: the system rejects much longer ones. At such a low rate, a round continues a little early."""
SET_PARENT_DEATH_SIGNAL: Final = 1
"""Option of prctl(2). The signal follows the thread that started the process: the broker's event loop."""
WATCH_BYTES: Final = 8 * 1024 * 1024
"""Bytes read and written between two checks that the broker still runs."""


class Pace:
    """Rate limit of a round, which also ends the round when the broker ends."""

    def __init__(self, bytes_per_second: float, is_abandoned: Callable[[float], bool]) -> None:
        """`is_abandoned` waits for so many seconds for the end of the broker, and returns True if it came."""
        self._bytes_per_second = bytes_per_second
        self._is_abandoned = is_abandoned
        self._moved = self._watched = 0
        self._start = time.monotonic()

    def moved(self, count: int) -> None:
        """Wait until this many more bytes may be moved. Raises BrokenPipeError if the broker has ended."""
        self._moved += count
        early = self._moved / self._bytes_per_second - (time.monotonic() - self._start)
        if early > 0.0 or self._moved - self._watched >= WATCH_BYTES:
            self._watched = self._moved
            if self._is_abandoned(max(early, 0.0)):
                raise BrokenPipeError("the broker is gone")


def serve(commands: BinaryIO, reports: BinaryIO, disk: Disk, is_abandoned: Callable[[float], bool]) -> None:
    """Run one plan after the other until the input ends."""
    for line in commands:
        command = json.loads(line)
        plan = RoundPlan.from_json(json.dumps(command["plan"]).encode())
        pace = Pace(command["bytes_per_second"], is_abandoned)
        for report in _outcomes(disk, plan):
            if isinstance(report, Progress):
                pace.moved(report.bytes_moved)
            else:
                reports.write(json.dumps(report).encode() + b"\n")
                reports.flush()


def _outcomes(disk: Disk, plan: RoundPlan) -> Any:
    """Yield progress, and the reports in the form in which they are sent."""
    try:
        for report in run_round(disk, plan):
            yield report if isinstance(report, Progress) else _as_json(report)
    except CorruptLogError as error:
        yield {"corrupt": {"message": error.message}}
    except DiskFailure as failure:
        yield {
            "disk": {
                "operation": failure.operation,
                "path": failure.path,
                "number": failure.error.errno or 0,
                "message": failure.error.strerror or str(failure.error),
                "is_full": isinstance(failure, DiskFullError),
            }
        }
    except (CompressionError, MemoryError, ValueError) as error:  # a client's wrong compression, or too many keys
        yield {"failed": {"message": f"{type(error).__name__}: {error}"}}


def _as_json(report: Report) -> dict[str, Any]:
    if isinstance(report, CleanedGroup):
        return {"group": report.sources}
    return {"end": asdict(report)}


def _end_with_broker(broker_process_id: int) -> None:
    """End this process with the broker, also if a fork of the broker's program keeps the other end of the pipe open."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != broker_process_id:
        sys.exit()


def main() -> None:
    _end_with_broker(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's interrupt is for the broker, which then ends this one
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    commands = sys.stdin.buffer

    def is_abandoned(seconds: float) -> bool:
        """Return True if the input can be read: during a round nothing is sent, so it has ended."""
        readable, _, _ = select.select([commands], [], [], min(seconds, SELECT_SECONDS_MAX))
        return bool(readable)

    with contextlib.suppress(BrokenPipeError):
        serve(commands, sys.stdout.buffer, RealDisk(OPEN_FILES_MAX), is_abandoned)


if __name__ == "__main__":
    main()
