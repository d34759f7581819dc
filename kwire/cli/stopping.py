"""When a node stops: at a signal, and as the process that started it says over standard input, a pipe.

The pipe's end stops the node, and says that all nodes of the cluster stop: nobody need take its place in the quorum.
Before that, a node that was told to stop by a signal ends its work as a broker, says LET_GO, and stays in the quorum
until it hears a line, as the others go on without it, or the pipe's end. So the brokers of a cluster that stops as a
whole find controllers that let them go, whatever the order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress

import click

LET_GO = "kwire: no longer serving"
GO_ALONE = b"\n"


def say(line: str) -> None:
    """Print a line of a running node; an output that cannot be written is ignored, so that the node goes on."""
    with suppress(OSError):
        click.echo(os.fsencode(line))  # a path may be any bytes


class Stopping:
    """Made in the loop, before anybody is told that the node serves: from then on signals find it ready."""

    def __init__(self, *, with_stdin: bool) -> None:
        self.wanted = asyncio.Event()
        self._may_leave = asyncio.Event()
        self._others_go_on = True
        self._with_stdin = with_stdin
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.wanted.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup; else its terminal is gone
            loop.add_signal_handler(signal.SIGHUP, self.wanted.set)
        if with_stdin:
            loop.add_reader(sys.stdin.fileno(), self._hear)

    def _hear(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._others_go_on = False
            self.wanted.set()
        self._may_leave.set()

    async def before_leaving(self) -> bool:
        """Wait for leave to go out of the quorum; whether others go on, who need a leader."""
        if self._with_stdin and self._others_go_on:
            say(LET_GO)
            await self._may_leave.wait()
        return self._others_go_on
