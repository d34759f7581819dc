"""Files and directories that are nobody's data any more: how they go, and when a start cannot wait for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from kwire.log.disk import Disk, DiskFailure

logger = logging.getLogger(__name__)

DELETED_DIRECTORY: Final = re.compile(r".*\.[0-9a-f]{32}-delete")
ROOM_BYTES_LEAST: Final = 16 * 1024 * 1024
"""A start writes a little before it serves anyone: less room than this may not be enough."""


def make_room(disk: Disk, directory: str) -> None:
    """Remove deleted partitions at once where the disk is full; else they are removed while the broker serves."""
    _, usable = disk.space(directory)
    if usable >= ROOM_BYTES_LEAST:
        return
    for name in disk.list(directory):
        if DELETED_DIRECTORY.fullmatch(name):
            logger.warning("%s has %s bytes left: removing %s before anything else", directory, usable, name)
            disk.remove_directory(f"{directory}/{name}")


def remove(disk: Disk, paths: Iterable[str]) -> None:
    """Remove files and directories; what fails is left for the next start."""
    for path in paths:
        try:
            if disk.is_directory(path):
                disk.remove_directory(path)
            else:
                disk.unlink(path)
        except DiskFailure as failure:
            logger.warning("Leaving %s for the next start: %s", path, failure)
