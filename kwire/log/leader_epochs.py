"""Leader epochs and their start offsets: the leader-epoch-checkpoint file of a partition.

Epochs and start offsets both strictly increase. With this file a follower finds the offset at which its log and its
leader's diverge (KIP-101, KIP-279). Entries that were not durable at a crash are rebuilt from the batches after the
last durable entry.

An epoch without records does not apply to any record. Alone it does not cause a write of the file: its first record
does, or another change of the entries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kwire.log.checkpoints import CorruptCheckpointError, format_epochs, parse_epochs
from kwire.log.disk import Disk, DiskFullError

logger = logging.getLogger(__name__)

FILE_NAME: Final = "leader-epoch-checkpoint"
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class LeaderEpochs:
    """Leader epochs of one log, oldest first."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{FILE_NAME}"
        self._entries: list[tuple[int, int]] = []
        self.latest_epoch = NO_EPOCH
        self.version = 0
        """Number of changes. The file has _written_version, older after a full disk; a power failure leaves
        durable_version.
        """
        self.durable_version = 0
        self._written_version = 0
        self.stored_epoch = NO_EPOCH
        """Newest epoch that is, or is about to be, in the file; a newer epoch has no records."""
        self._recovered: list[tuple[int, int]] | None = None
        """Entries of the file when a recovery began; None outside of recoveries."""

    def load(self) -> None:
        """Read the file; if it is missing or broken, recovery rebuilds the entries from the batches."""
        try:
            self._entries = parse_epochs(self._disk.read(self.path), self.path)
        except (FileNotFoundError, CorruptCheckpointError):
            self._entries = []
        self._note_latest()
        self.stored_epoch = self.latest_epoch

    def covers(self, start_offset: int) -> bool:
        """Return True if the epoch of the record at start_offset is known."""
        return bool(self._entries) and self._entries[0][1] <= start_offset

    def entries(self) -> list[tuple[int, int]]:
        """Return the (epoch, start offset) pairs."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Store that `epoch` starts at start_offset; return False if it is known or contradicts a newer epoch."""
        if not self.begin(epoch, start_offset) and not self.stored_epoch < epoch == self.latest_epoch:
            return False
        self._changed()
        return True

    def begin(self, epoch: int, start_offset: int) -> bool:
        """Store, in memory only, the start of an epoch without records; return False unless the epoch is the newest.

        assign() with the first record of the epoch writes it to the file.
        """
        if epoch <= self.latest_epoch:
            return False
        # Replace epochs without records, whose start offsets do not matter.
        while self._entries and self._entries[-1][1] >= start_offset:
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest known epoch <= `epoch`, its end offset).

        If all known epochs are larger, return (`epoch`, start of the first one). Return (-1, -1) if there is no entry
        or `epoch` is above the latest one (KIP-279).
        """
        if epoch < 0 or epoch > self.latest_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        floor = NO_EPOCH
        for known, start in self._entries:
            if known > epoch:
                return (epoch if floor == NO_EPOCH else floor), start
            floor = known
        return NO_EPOCH, NO_OFFSET

    def epoch_of(self, offset: int) -> int:
        """Return the epoch under which the record at `offset` was written, -1 if unknown."""
        found = NO_EPOCH
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after end_offset."""
        if end_offset >= 0 and self._entries and self._entries[-1][1] >= end_offset:
            is_stored = any(start >= end_offset and epoch <= self.stored_epoch for epoch, start in self._entries)
            self._entries = [entry for entry in self._entries if entry[1] < end_offset]
            if is_stored:
                self._changed()
            else:
                self._note_latest()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end before start_offset; the epoch that covers it now starts there."""
        covering = [entry for entry in self._entries if entry[1] <= start_offset]
        if covering and covering[-1][1] < start_offset:
            self._entries = [(covering[-1][0], start_offset), *self._entries[len(covering) :]]
            self._changed()
        elif len(covering) > 1:
            self._entries = self._entries[len(covering) - 1 :]
            self._changed()

    def derive(self, batches: Iterable[tuple[int, int]]) -> None:
        """Replace all entries by those derived from all batches' (epoch, base offset); the file is written once."""
        self._entries = []
        for epoch, offset in batches:
            if epoch > (self._entries[-1][0] if self._entries else NO_EPOCH):
                self._entries.append((epoch, offset))
        self._changed()

    def clear(self) -> None:
        if self._entries:
            self._entries = []
            self._changed()

    def write(self) -> None:
        """Write the file if it is outdated, as after a full disk. Raises DiskFullError if the disk is still full."""
        if self._written_version != self.version:
            self._disk.replace(self.path, format_epochs(self._entries), sync=False)
            self._written_version = self.version

    def begin_recovery(self) -> None:
        """Keep changes in memory from now on, because recovery mostly restores the entries that are in the file."""
        self._recovered = list(self._entries)

    def finish_recovery(self) -> None:
        """Write the file if the entries differ from those before the recovery."""
        before, self._recovered = self._recovered, None
        if self._entries != before:
            self._changed()

    def _changed(self) -> None:
        self._note_latest()
        self.stored_epoch = self.latest_epoch
        if self._recovered is not None:
            return
        self.version += 1
        try:
            self.write()
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the epochs are written with the next flush", error)

    def _note_latest(self) -> None:
        self.latest_epoch = self._entries[-1][0] if self._entries else NO_EPOCH
