"""Leftover files and directories: their removal, and when a start must not wait for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from kwire.log.disk import Disk, DiskFailure

logger = logging.getLogger(__name__)

DELETED_DIRECTORY: Final = re.compile(r".*\.[0-9a-f]{32}-delete")
FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""Free bytes needed at start: the broker writes a little before it serves clients."""


def remove_deleted_if_full(disk: Disk, directory: str) -> None:
    """Remove deleted partitions at once if the disk is full; otherwise they are removed while the broker runs."""
    _, usable = disk.space(directory)
    if usable >= FREE_BYTES_MIN:
        return
    for name in disk.list(directory):
        if DELETED_DIRECTORY.fullmatch(name):
            logger.warning("%s has %s bytes left: removing %s before anything else", directory, usable, name)
            disk.remove_directory(f"{directory}/{name}")


def remove(disk: Disk, paths: Iterable[str]) -> None:
    """Remove files and directories; the next start removes those that fail."""
    for path in paths:
        try:
            if disk.is_directory(path):
                disk.remove_directory(path)
            else:
                disk.unlink(path)
        except DiskFailure as failure:
            logger.warning("Leaving %s for the next start: %s", path, failure)
