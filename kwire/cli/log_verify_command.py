"""Command `kwire log verify`: a complete check of a log directory."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from kwire.cli.log_command import EXIT_DAMAGED, as_json, format_option, printable, reject, until_pipe_breaks

BAR_STEP_BYTES = 1024 * 1024


@click.command()
@click.argument("directory")
@click.option("--force", is_flag=True, help="Check although a broker is running: its unfinished writes may look wrong.")
@format_option
def verify(directory: str, *, force: bool, form: str) -> None:
    """Check every byte of DIRECTORY, a log directory or one partition's, without changing anything.

    Reports what is wrong and where. The exit status is 0 if all is sound, and 1 if something is wrong. It is 2 if
    DIRECTORY cannot be checked, for example because a running broker uses it. Lines that begin with "note" do not count
    as wrong.
    """
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire.log.inspection.directory_check import locked  # noqa: PLC0415
    from kwire.log.inspection.reading import InspectionError  # noqa: PLC0415

    try:
        with locked(directory, force=force):
            status = until_pipe_breaks(lambda: _verify(directory, form))
    except InspectionError as error:
        reject(str(error))
    sys.exit(status)


def _verify(directory: str, form: str) -> int:
    from kwire.log.inspection.directory_check import (  # noqa: PLC0415 see verify
        DirectoryCheck,
        bytes_below,
        is_partition_directory,
    )
    from kwire.log.inspection.partition_check import PartitionCheck  # noqa: PLC0415 see verify

    total = bytes_below(directory)
    wrong = 0
    with _progress(total) as advance:
        check = (PartitionCheck if is_partition_directory(directory) else DirectoryCheck)(directory, advance)
        for finding in check.run():
            wrong += finding.is_wrong
            if sys.stderr.isatty():
                click.echo("\r\x1b[K", err=True, nl=False)
            click.echo(as_json(dataclasses.asdict(finding)) if form == "json" else _line(finding))
    if form == "text":
        click.echo(f"{total} bytes of batches read: " + (f"{wrong} wrong" if wrong else "sound"))
    return EXIT_DAMAGED if wrong else 0


def _line(finding: Any) -> str:
    where = [
        f"{name} {value}"
        for name, value in (("position", finding.position), ("offset", finding.offset))
        if value is not None
    ]
    kind = "wrong" if finding.is_wrong else "note"
    return printable(f"{kind}: {', '.join([finding.path, *where])}: {finding.what}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=total, file=sys.stderr, update_min_steps=BAR_STEP_BYTES) as bar:
        yield bar.update
