"""Joint output of several processes: each line has the name of its process in front, in a colour of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


class JointOutput:
    """Writer to standard output. Colours are used on terminals, unless NO_COLOR is set."""

    def __init__(self, names: Sequence[str], *, lost: Callable[[], None]) -> None:
        """`lost` is called once, when the output cannot be written any more."""
        width = max(map(len, names))
        self._prefixes = {
            name: click.style(f"{name:<{width}} |", fg=COLOURS[index % len(COLOURS)])
            for index, name in enumerate(names)
        }
        self._color = False if os.environ.get("NO_COLOR") else None
        self._lost = lost
        self._is_lost = False

    def line(self, name: str, text: str) -> None:
        """Write a line of one process."""
        self._write(f"{self._prefixes[name]} {text}")

    def note(self, text: str) -> None:
        """Write a line about all processes."""
        self._write(click.style("kwire: ", bold=True) + text)

    def trouble(self, text: str) -> None:
        """Write an error line to standard error."""
        self._write(click.style("kwire: ", bold=True) + click.style(text, fg="red"), err=True)

    def _write(self, text: str, *, err: bool = False) -> None:
        if self._is_lost:
            return
        try:
            click.echo(text, err=err, color=self._color)
        except OSError:
            # The terminal or the pipe is closed. The rest of the buffer must not fail again at the exit.
            self._is_lost = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())
            self._lost()
