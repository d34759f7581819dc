"""Stop of a node: by a signal, or by its parent process over standard input, a pipe.

The end of the pipe stops the node, and means that all nodes of the cluster stop: no other must replace it in the
quorum. After a signal, a node first shuts down as a broker, prints SHUT_DOWN_LINE, and stays in the quorum. It leaves
after it reads a line, because the others continue without it, or after the end of the pipe. So the brokers of a cluster
that stops as a whole find controllers for their shutdown, in any order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress

import click

SHUT_DOWN_LINE = "kwire: no longer serving"
LEAVE_QUORUM_LINE = b"\n"


def say(line: str) -> None:
    """Print a line of a running node; an output that cannot be written is ignored, so that the node continues."""
    with suppress(OSError):
        click.echo(os.fsencode(line))  # a path may be any bytes


class Stopping:
    """Stop requests of a node.

    It is created in the event loop before the node reports that it serves, to handle signals.
    """

    def __init__(self, *, with_stdin: bool) -> None:
        self.requested = asyncio.Event()
        self._may_leave = asyncio.Event()
        self._others_go_on = True
        self._with_stdin = with_stdin
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.requested.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
            loop.add_signal_handler(signal.SIGHUP, self.requested.set)
        if with_stdin:
            loop.add_reader(sys.stdin.fileno(), self._read_stdin)

    def _read_stdin(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._others_go_on = False
            self.requested.set()
        self._may_leave.set()

    async def before_leaving(self) -> bool:
        """Wait until the node may leave the quorum; return True if other nodes continue and need a leader."""
        if self._with_stdin and self._others_go_on:
            say(SHUT_DOWN_LINE)
            await self._may_leave.wait()
        return self._others_go_on
