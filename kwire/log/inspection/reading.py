"""Files as an inspection reads them: for reading only, in windows, and never anything but a regular file."""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Final, Self

WINDOW_BYTES: Final = 256 * 1024
SMALL_FILE_BYTES_MAX: Final = 256 * 1024**2
"""What is read whole: indexes, snapshots, checkpoints. Segments are read in windows, whatever their size."""


class InspectionError(Exception):
    """A path that cannot be inspected; the message is one line."""


class InputFile:
    """One file, read at any position; what is read in order costs one system call a window."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, a named pipe that somebody left in the directory would wait for its writer.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            raise InspectionError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise InspectionError(f"{path}: is no regular file")
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
        """Up to length bytes; fewer only at the end of the file."""
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
    """A small file's bytes."""
    with InputFile(path) as file:
        if file.size > SMALL_FILE_BYTES_MAX:
            raise InspectionError(f"{path}: {file.size} bytes are too many for a file of its kind")
        return file.read(0, file.size) if file.size else b""


def read_lines_file(path: str) -> bytes:
    """A checkpoint's bytes. Its parser takes any white space for a line's end; a broker writes newlines alone."""
    data = read_whole(path)
    if any(byte < 32 and byte != 10 for byte in data):
        raise InspectionError(f"{path}: it holds control characters")
    return data
