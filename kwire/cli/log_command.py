"""Command `kwire log dump`: shows the files of a log directory as text or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

EXIT_DAMAGED = 1
EXIT_REJECTED = 2
_INDENTED = ("record",)


@click.group()
def log() -> None:
    """Inspect log files offline."""


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object a line.",
)


@log.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--records", is_flag=True, help="Show each batch's records too.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Begin with the batch that holds this offset.")
@click.option("--limit", type=click.IntRange(min=0), default=None, help="Show at most so many batches of a file.")
@click.option("--max-bytes", type=click.IntRange(min=0), default=None, help="Read at most so many bytes of batches.")
@format_option
def dump(
    paths: tuple[str, ...], *, records: bool, offset: int, limit: int | None, max_bytes: int | None, form: str
) -> None:
    """Show the content of PATH: a file of a log directory, a partition's directory, or a whole log directory.

    Keys and values are shown as text if they are UTF-8, else as base64. The exit status is 1 if a file is damaged,
    and 2 if a path cannot be read.
    """
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire.log.inspection.dumping import Selection  # noqa: PLC0415
    from kwire.log.inspection.reading import InspectionError  # noqa: PLC0415

    selection = Selection(records=records, offset=offset, limit=limit, max_bytes=max_bytes)
    try:
        sys.exit(until_pipe_breaks(lambda: _dump(paths, selection, form)))
    except InspectionError as error:
        reject(str(error))


def _dump(paths: tuple[str, ...], selection: Any, form: str) -> int:
    from kwire.log.inspection.dumping import can_be_dumped, dump_file, files_below  # noqa: PLC0415 see dump

    status = 0
    for path in paths:
        for file in files_below(path):
            if file != path and not can_be_dumped(file):
                continue
            if form == "text":
                click.echo(f"== {printable(file)}")
            for row in _rows(dump_file(file, selection), is_named=file == path):
                damaged = row["kind"] == "damage" or row.get("crc_is_right") is False
                status = EXIT_DAMAGED if damaged else status
                click.echo(as_json({"file": file, **row}) if form == "json" else as_text(row))
    return status


def _rows(rows: Iterator[dict[str, Any]], *, is_named: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; an unreadable file of a directory becomes a row, so that the others are shown."""
    from kwire.log.inspection.reading import InspectionError  # noqa: PLC0415 see dump

    try:
        yield from rows
    except InspectionError as error:
        if is_named:
            raise
        yield {"kind": "damage", "position": 0, "what": str(error)}


def until_pipe_breaks(work: Callable[[], int]) -> int:
    """Return the status of the work; 0 if the reader closed the pipe, as `head` does."""
    try:
        status = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the rest of the buffer would fail again at the exit of the interpreter.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def as_json(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def as_text(row: dict[str, Any]) -> str:
    """Return the row as a line: kind name=value name=value. A record is indented below its batch."""
    indent = "    " if row["kind"] in _INDENTED else "  "
    words = [row["kind"], *(f"{name}={word}" for name, word in _words(row))]
    return indent + " ".join(words)


def _words(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in row.items():
        if name != "kind" and value != []:
            yield name, _word(value)


def _word(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return f"base64:{value['base64']}"
    return printable(json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """Return the text with terminal control characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def reject(message: str) -> NoReturn:
    click.echo(f"kwire: {printable(message)}", err=True)
    sys.exit(EXIT_REJECTED)
