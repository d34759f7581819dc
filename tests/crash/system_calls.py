"""System calls of a process that change files of a directory, as recorded by strace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

KINDS = {
    "write": "write",
    "writev": "write",
    "pwrite64": "write",
    "pwritev": "write",
    "pwritev2": "write",
    "copy_file_range": "write",
    "splice": "write",
    "fallocate": "write",
    "ftruncate": "truncate",
    "truncate": "truncate",
    "fsync": "sync",
    "fdatasync": "sync",
    "sync_file_range": "sync",
    "rename": "rename",
    "renameat": "rename",
    "renameat2": "rename",
    "link": "link",
    "linkat": "link",
    "symlink": "link",
    "symlinkat": "link",
    "unlink": "remove",
    "unlinkat": "remove",
    "rmdir": "remove",
    "mkdir": "make",
    "mkdirat": "make",
    "open": "create",
    "openat": "create",
    "openat2": "create",
    "creat": "create",
    "mmap": "map",
}
"""Kind of change by system call; calls that open or map files count only if they allow writes."""

_LINE = re.compile(r"^(\d+) +(.*)$")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
_CALL = re.compile(r"^(\w+)\((.*)\) += (-?\w+)")
_PLACE = re.compile(r'(?:\d+|AT_FDCWD)<(?P<place>[^>]*)>|"(?P<name>[^"]*)"')
_NAME = re.compile(r', "(?P<name>[^"]+)"(?!\.)')


def command(trace: Path) -> list[str]:
    """Return the strace command that precedes the watched command."""
    calls = ",".join(f"?{name}" for name in KINDS)
    return [
        "strace",
        "-f",
        "-y",
        "-s",
        "0",
        "--seccomp-bpf",
        "-e",
        f"trace={calls}",
        "-e",
        "signal=none",
        "-o",
        str(trace),
    ]


def changes(trace: Path, directory: Path) -> Counter[tuple[str, str]]:
    """Return the number of (kind, path) changes in the directory; failed calls are left out."""
    found: Counter[tuple[str, str]] = Counter()
    for call in _calls(trace.read_text().splitlines()):
        match = _CALL.match(call)
        if match is None or match[3].startswith("-"):
            continue
        kind, arguments = KINDS[match[1]], match[2]
        path = _path(arguments)
        if path is None or not Path(path).is_relative_to(directory) or not _can_write(kind, arguments):
            continue
        found[kind, path] += 1
    return found


def _calls(lines: Iterable[str]) -> Iterator[str]:
    """Yield whole calls; a call that another thread interrupted is joined."""
    begun: dict[str, str] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        process, text = match.groups()
        resumed = _RESUMED.match(text)
        if text.endswith(_UNFINISHED):
            begun[process] = text.removesuffix(_UNFINISHED)
        elif resumed is not None:
            yield begun.pop(process, "") + resumed[2]
        else:
            yield text


def _can_write(kind: str, arguments: str) -> bool:
    if kind == "create":
        return "O_CREAT" in arguments
    if kind == "map":
        return "MAP_SHARED" in arguments and "PROT_WRITE" in arguments
    return True


def _path(arguments: str) -> str | None:
    """Return the file of a call: the path of its descriptor, or the first path in its arguments, which may be relative
    to a descriptor of a directory.
    """
    first = _PLACE.search(arguments)
    if first is None:
        return None
    if first["name"] is not None:
        return first["name"]
    second = _NAME.match(arguments, first.end())
    if second is None:
        return first["place"]
    return second["name"] if second["name"].startswith("/") else f"{first['place']}/{second['name']}"
