"""Input files of an inspection: opened read-only, read in windows; only regular files are accepted."""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Final, Self

WINDOW_BYTES: Final = 256 * 1024
SMALL_FILE_BYTES_MAX: Final = 256 * 1024**2
"""Largest file that is read whole: indexes, snapshots, checkpoints. Segments are read in windows."""


class InspectionError(Exception):
    """Path that cannot be inspected; the message is one line."""


class InputFile:
    """File that is read at any position; sequential reads need one system call per window."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe in the directory would wait for a writer.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            raise InspectionError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise InspectionError(f"{path}: is not a regular file")
        self.size = status.st_size
        self._window = b""
        self._window_position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""
        start = position - self._window_position
        if start < 0 or start + length > len(self._window):
            self._window = self._pread(position, max(length, WINDOW_BYTES))
            self._window_position, start = position, 0
        return self._window[start : start + length]

    def _pread(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            while data and len(data) < length:
                more = os.pread(self._descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise InspectionError(f"{self.path}: {error.strerror} at position {position}") from error
        return data


def read_whole(path: str) -> bytes:
    """Return the bytes of a small file."""
    with InputFile(path) as file:
        if file.size > SMALL_FILE_BYTES_MAX:
            raise InspectionError(f"{path}: {file.size} bytes are too many for a file of its kind")
        return file.read(0, file.size) if file.size else b""


def read_lines_file(path: str) -> bytes:
    """Return a checkpoint's bytes. Its parser would accept any white space as line end; brokers write newlines only."""
    data = read_whole(path)
    if any(byte < 32 and byte != 10 for byte in data):
        raise InspectionError(f"{path}: it contains control characters")
    return data
