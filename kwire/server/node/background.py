"""Background tasks of a server: they run as long as it does, and the server stops if one of them fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from kwire.invariants import threatens_durable_data
from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError

logger = logging.getLogger(__name__)


class Background:
    """Tasks of a server, and the first error that makes it stop."""

    def __init__(self, what: str) -> None:
        """`what` is the server's name in the log. Needs a running event loop."""
        self._what = what
        self.tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[BaseException] = loop.create_future()
        """Future with the error that makes the server stop."""
        loop.set_exception_handler(self._unhandled)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task until the server stops."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        self.tasks.append(task)
        return task

    def fail(self, error: BaseException) -> None:
        """Make the server stop because of an error; only the first error is kept."""
        if isinstance(error, (DiskFailure, LogDirectoryError)):  # their messages need no traceback
            logger.critical("the %s cannot go on: %s", self._what, error)
        else:
            logger.critical("the %s cannot go on", self._what, exc_info=error)
        if not self.failed.done():
            self.failed.set_result(error)

    def fail_if_data_threatened(self, error: BaseException) -> None:
        """Make the server stop if an error, which its caller has logged, threatens durable data (docs/decisions/0013).

        Any other error ends only the request or the timer that raised it: a client may have caused it.
        """
        if threatens_durable_data(error):
            self.fail(error)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception that a callback of the event loop has raised, for example a timer's."""
        loop.default_exception_handler(context)
        if (error := context.get("exception")) is not None:
            self.fail_if_data_threatened(error)

    async def stop(self) -> None:
        """Cancel all tasks and return when they have ended."""
        await _cancel(self.tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


class RoleTasks:
    """Tasks of one role of a process: they end before the tasks of the process do."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task until the role ends. If the coroutine fails, the server stops."""
        self._tasks.append(self._background.run(work))

    async def stop(self) -> None:
        """Cancel all tasks of the role and return when they have ended."""
        await _cancel(self._tasks)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
