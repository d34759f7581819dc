"""Which leader epoch starts at which offset: the leader-epoch-checkpoint file of a partition.

Epochs and start offsets both increase strictly. The file is what lets a follower find where its log and its leader's
part (KIP-101, KIP-279); entries that were not yet durable at a crash are found again in the batches that follow them.

An epoch without records says nothing of any record: it is in memory only, until its first record is appended.
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
    """The epochs of one log, oldest first."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{FILE_NAME}"
        self._entries: list[tuple[int, int]] = []
        self.latest_epoch = NO_EPOCH
        self.version = 0
        """Counts changes; the file has the newest, and durable_version tells what a power cut would leave."""
        self.durable_version = 0
        self._written_version = 0
        self.stored_epoch = NO_EPOCH
        """The newest epoch that the file names or is about to name; a newer one has no records."""
        self._recovered: list[tuple[int, int]] | None = None
        """What the file had when a recovery began, until that has ended."""

    def load(self) -> None:
        """Read the file; a missing or broken one is empty, for recovery to fill from the batches."""
        try:
            self._entries = parse_epochs(self._disk.read(self.path), self.path)
        except (FileNotFoundError, CorruptCheckpointError):
            self._entries = []
        self._note_latest()
        self.stored_epoch = self.latest_epoch

    def cover(self, start_offset: int) -> bool:
        """Whether there is an epoch for the record at start_offset."""
        return bool(self._entries) and self._entries[0][1] <= start_offset

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that epoch starts at start_offset; False if that is known or contradicts a newer epoch."""
        if not self.begin(epoch, start_offset) and not self.stored_epoch < epoch == self.latest_epoch:
            return False
        self._changed()
        return True

    def begin(self, epoch: int, start_offset: int) -> bool:
        """Note in memory that an epoch without records starts here; False if that is known or contradicts a newer one.

        assign() with its first record puts it into the file.
        """
        if epoch <= self.latest_epoch:
            return False
        # An epoch without records is replaced: its start says nothing.
        while self._entries and self._entries[-1][1] >= start_offset:
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= the asked one, where it ends), or (-1, -1) if this log cannot tell (KIP-279)."""
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
        """The epoch under which the record at offset was written, -1 if unknown."""
        found = NO_EPOCH
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or after end_offset."""
        if end_offset >= 0 and self._entries and self._entries[-1][1] >= end_offset:
            is_stored = any(start >= end_offset and epoch <= self.stored_epoch for epoch, start in self._entries)
            self._entries = [entry for entry in self._entries if entry[1] < end_offset]
            if is_stored:
                self._changed()
            else:
                self._note_latest()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end before start_offset; the one that covers it starts there from now on."""
        covering = [entry for entry in self._entries if entry[1] <= start_offset]
        if covering and covering[-1][1] < start_offset:
            self._entries = [(covering[-1][0], start_offset), *self._entries[len(covering) :]]
            self._changed()
        elif len(covering) > 1:
            self._entries = self._entries[len(covering) - 1 :]
            self._changed()

    def derive(self, batches: Iterable[tuple[int, int]]) -> None:
        """Take the (epoch, base offset) of all batches for all there is to know; the file is written once."""
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
        """Bring the file up to date, which a full disk may have kept from it; raises DiskFullError if it still does."""
        if self._written_version != self.version:
            self._disk.replace(self.path, format_epochs(self._entries), sync=False)
            self._written_version = self.version

    def begin_recovery(self) -> None:
        """Keep changes in memory from now on: recovery cuts and assigns epochs, mostly back to what the file has."""
        self._recovered = list(self._entries)

    def finish_recovery(self) -> None:
        """Write the file if it is to have other entries than before."""
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
