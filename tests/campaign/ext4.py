"""File system (ext4) in a file, with simulated power cuts: un-synced data is lost with the next mount.

The power cut is ext4's own shutdown request without a flush of its journal: data in memory does not reach the image,
and every later write fails. It needs root, loop devices and mkfs.ext4.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32)."""
WITHOUT_JOURNAL_FLUSH = 2
PATIENCE_SECONDS = 10.0
FILL_BYTES = 1 << 20
BLOCK_BYTES = 1 << 10


class FileSystem:
    """File system image and its current mount."""

    def __init__(self, scratch: Path, options: str, *, megabytes: int = 256) -> None:
        self._image = scratch / "image"
        self.directory = scratch / "mounted"
        self.directory.mkdir()
        self._options = f"loop,{options}" if options else "loop"
        with self._image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))

    def mount(self) -> None:
        """Mount the image; this also replays the journal, as a start after a power cut does."""
        _run("mount", "-t", "ext4", "-o", self._options, str(self._image), str(self.directory))

    def cut(self) -> None:
        """Cut the power now."""
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL_FLUSH))
        finally:
            os.close(descriptor)

    def fill(self, ballast: Path) -> None:
        """Fill the file system with a file, and then with another one for blocks that were reserved during the first
        write.
        """
        with ballast.open("wb", buffering=0) as file:
            for size in (FILL_BYTES, FILL_BYTES, BLOCK_BYTES):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
                os.fsync(file.fileno())

    def unmount(self) -> None:
        """Unmount the image; this removes its loop device."""
        given_up = time.monotonic() + PATIENCE_SECONDS
        while os.path.ismount(self.directory):
            try:
                _run("umount", str(self.directory))
            except subprocess.CalledProcessError:
                if time.monotonic() > given_up:
                    raise
                time.sleep(0.05)  # a process that was just killed still has open files


@contextmanager
def file_system(scratch: Path, options: str = "") -> Iterator[FileSystem]:
    """Create and mount a new file system; remove it at the end."""
    made = FileSystem(scratch, options)
    try:
        made.mount()
        yield made
    finally:
        made.unmount()
        shutil.rmtree(scratch)


def why_not(scratch: Path) -> str | None:
    """Return why power cuts are impossible on this machine; None if they are possible."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        return "there is no mkfs.ext4"
    scratch.mkdir()
    try:
        with file_system(scratch) as made:
            made.cut()
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return f"no ext4 image can be mounted and shut down here: {said.strip()}"
    return None


def _run(*command: str) -> None:
    environment = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
