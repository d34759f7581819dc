"""Identity of a log directory (meta.properties), and the files that formatting writes.

meta.properties contains the node and cluster that a directory belongs to, so that a wrong or unmounted volume is
detected. Formatting writes it last: the formatting of a directory without it was interrupted, and the directory
contains only files that formatting writes. Their names are therefore defined here.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kwire.log.disk import Disk
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.log_directories import LOCK_FILE
from kwire.properties_files import escape_value, read_properties
from kwire.protocol.uuids import uuid_from_text, uuid_to_text

META_PROPERTIES = "meta.properties"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
_LEFT_BY_FORMATTING = frozenset(
    {META_PROPERTIES + ".tmp", BOOTSTRAP_CHECKPOINT, BOOTSTRAP_CHECKPOINT + ".tmp", LOCK_FILE, "lost+found"}
)
_LEFT_IN_METADATA_DIRECTORY = frozenset({FIRST_SNAPSHOT, FIRST_SNAPSHOT + ".tmp"})


class DirectoryRejected(Exception):  # noqa: N818 named after what happened
    """A log directory cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Identity of one log directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    def to_bytes(self) -> bytes:
        lines = (
            "#",
            f"node.id={self.node_id}",
            f"directory.id={uuid_to_text(self.directory_id)}",
            "version=1",
            f"cluster.id={escape_value(self.cluster_id)}",
        )
        return ("\n".join(lines) + "\n").encode()


def load_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Return the directory's identity; None if it was never formatted. Raises DirectoryRejected if it is unreadable."""
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    try:
        values = read_properties(disk.read(path).decode("utf-8", "replace"))
        if values["version"] != "1":
            raise DirectoryRejected(f"log.dirs: {path} has version {values['version']}; only version 1 is known")
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=uuid_from_text(values["directory.id"]),
        )
    except (KeyError, ValueError) as error:
        why = f"no {error.args[0]} in it" if isinstance(error, KeyError) else error
        raise DirectoryRejected(
            f"log.dirs: {path} cannot be read ({why}); restore it or use another directory"
        ) from None


def is_blank(disk: Disk, directory: str) -> bool:
    """Return True if a directory is missing, empty, or holds only what an interrupted formatting leaves behind."""
    if not disk.exists(directory):
        return True
    names = set(disk.list(directory)) - _LEFT_BY_FORMATTING
    if names != {METADATA_DIRECTORY}:
        return not names
    metadata = f"{directory}/{METADATA_DIRECTORY}"
    # With other files in it, this was a node's metadata log, and its meta.properties is lost.
    return disk.is_directory(metadata) and not (set(disk.list(metadata)) - _LEFT_IN_METADATA_DIRECTORY)
