"""The quorum-state file: epoch, leader and vote of this replica (KIP-595, KIP-853).

It is durable before any message or record depends on it, so that an epoch is never used twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.directory import DirectoryRejected
from kwire.log.disk import Disk
from kwire.protocol.primitives import ZERO_UUID
from kwire.protocol.uuids import uuid_from_text, uuid_to_text

FILE_NAME = "quorum-state"
NO_NODE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """Persistent state of a voter. Leader and vote are -1 when unknown."""

    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: UUID = ZERO_UUID

    def to_bytes(self) -> bytes:
        value = {
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
            "votedDirectoryId": uuid_to_text(self.voted_directory_id),
            "data_version": 1,
        }
        return json.dumps(value, separators=(",", ":")).encode()


def load_quorum_state(disk: Disk, directory: str) -> QuorumState:
    """Return the stored state, a new one if there is no file. Raises DirectoryRejected if it cannot be read."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return QuorumState()
    try:
        value = json.loads(disk.read(path))
        return QuorumState(
            leader_id=_int32(value["leaderId"]),
            leader_epoch=_int32(value["leaderEpoch"]),
            voted_id=_int32(value["votedId"]),
            voted_directory_id=uuid_from_text(value.get("votedDirectoryId", "A" * 22)),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DirectoryRejected(f"log.dirs: {path} cannot be read ({error}); restore it from a backup") from None


def _int32(value: object) -> int:
    if not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{value!r} is not a 32-bit integer")
    return value


def store_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Replace the file durably."""
    disk.replace(f"{directory}/{FILE_NAME}", state.to_bytes(), sync=True)
