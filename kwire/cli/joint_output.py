"""The lines of several processes in one stream: each with the name of who said it in front, in a colour of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


class JointOutput:
    """Writes to standard output. Colours are for terminals, and for those who did not set NO_COLOR."""

    def __init__(self, names: Sequence[str], *, lost: Callable[[], None]) -> None:
        """`lost` is called once, when nobody reads any more."""
        width = max(map(len, names))
        self._prefixes = {
            name: click.style(f"{name:<{width}} |", fg=COLOURS[index % len(COLOURS)])
            for index, name in enumerate(names)
        }
        self._color = False if os.environ.get("NO_COLOR") else None
        self._lost = lost
        self._is_lost = False

    def line(self, name: str, text: str) -> None:
        """What one of them said."""
        self._write(f"{self._prefixes[name]} {text}")

    def note(self, text: str) -> None:
        """What concerns all of them."""
        self._write(click.style("kwire: ", bold=True) + text)

    def trouble(self, text: str) -> None:
        """What went wrong, on standard error."""
        self._write(click.style("kwire: ", bold=True) + click.style(text, fg="red"), err=True)

    def _write(self, text: str, *, err: bool = False) -> None:
        if self._is_lost:
            return
        try:
            click.echo(text, err=err, color=self._color)
        except OSError:
            # The terminal or the pipe is gone. What is still in the buffer must not fail once more at the end.
            self._is_lost = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())
            self._lost()
