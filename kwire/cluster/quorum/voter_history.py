"""Voter sets and kraft.version by the offset of their record.

A voter set is in effect as soon as its record is in the log, committed or not (KIP-853). When the log is truncated, the
previous one is in effect again. Values from a snapshot have the snapshot's last offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kwire.cluster.quorum.voters import VoterSet
from kwire.protocol.codec import decode
from kwire.protocol.control_records import ControlRecordType, control_record_type
from kwire.protocol.messages.control_records import KRaftVersionRecord, VotersRecord
from kwire.protocol.primitives import Buffer
from kwire.protocol.records import decode_batch, iterate_headers

T = TypeVar("T")
QuorumRecord = KRaftVersionRecord | VotersRecord
LAST_OFFSET = 0x7FFFFFFFFFFFFFFF
NOT_IN_LOG = -1
"""Offset of values that are configured, not written."""


class Timeline(Generic[T]):
    """Values by the offset from which they are in effect."""

    def __init__(self, first: T) -> None:
        self._offsets = [NOT_IN_LOG]
        self._values = [first]

    @property
    def newest(self) -> tuple[int, T]:
        return self._offsets[-1], self._values[-1]

    def at(self, end_offset: int) -> T:
        """Return the value in effect in a log that ends before end_offset."""
        return self._values[max(0, bisect_left(self._offsets, end_offset) - 1)]

    def add(self, offset: int, value: T) -> None:
        assert offset > self._offsets[-1] or (offset == self._offsets[-1] == NOT_IN_LOG), "offsets must increase"
        self._offsets.append(offset)
        self._values.append(value)

    def truncate_to(self, end_offset: int) -> None:
        """Remove values from end_offset on."""
        keep = max(1, bisect_left(self._offsets, end_offset))
        del self._offsets[keep:], self._values[keep:]

    def remove_before(self, offset: int) -> None:
        """Keep the value in effect at `offset` and the later ones."""
        first = max(0, bisect_right(self._offsets, offset) - 1)
        del self._offsets[:first], self._values[:first]

    def restart(self, offset: int, value: T) -> None:
        """Replace all values by one."""
        self._offsets, self._values = [offset], [value]


class VoterHistory:
    """Voter sets and kraft.version in the log."""

    def __init__(self, static_voters: VoterSet | None = None) -> None:
        self._static = static_voters if static_voters is not None else VoterSet()
        self._voters = Timeline(self._static)
        self._versions = Timeline(0)

    @property
    def voters(self) -> VoterSet:
        """Newest voter set, which is the one in effect."""
        return self._voters.newest[1]

    @property
    def voters_offset(self) -> int:
        """Offset of the newest set's record; NOT_IN_LOG for a configured one."""
        return self._voters.newest[0]

    @property
    def kraft_version(self) -> int:
        return self._versions.newest[1]

    def voters_at(self, end_offset: int) -> VoterSet:
        """Return the voter set in a log or snapshot that ends before end_offset."""
        return self._voters.at(end_offset)

    def kraft_version_at(self, end_offset: int) -> int:
        return self._versions.at(end_offset)

    def add(self, offset: int, record: QuorumRecord) -> None:
        if isinstance(record, KRaftVersionRecord):
            self._versions.add(offset, record.kraft_version)
        else:
            self._voters.add(offset, VoterSet.from_record(record))

    def truncate_to(self, end_offset: int) -> None:
        self._voters.truncate_to(end_offset)
        self._versions.truncate_to(end_offset)

    def remove_before(self, offset: int) -> None:
        self._voters.remove_before(offset)
        self._versions.remove_before(offset)

    def restart(self, end_offset: int, records: Iterable[QuorumRecord]) -> None:
        """Replace all values by those in a snapshot that ends before end_offset."""
        self._voters.restart(NOT_IN_LOG, self._static)
        self._versions.restart(NOT_IN_LOG, 0)
        for record in records:
            if isinstance(record, KRaftVersionRecord):
                self._versions.restart(end_offset - 1, record.kraft_version)
            else:
                self._voters.restart(end_offset - 1, VoterSet.from_record(record))


def quorum_records(data: Buffer, *, begin: int = 0, end: int = LAST_OFFSET) -> Iterator[tuple[int, QuorumRecord]]:
    """Yield (offset, record) of each KRaftVersion and KRaftVoters record in the batches between these offsets.

    Batches from `end` on are not read: a log that accepts only a part of a peer's batches has checked only that
    part.
    """
    for position, header in iterate_headers(data):
        if header.is_control and header.base_offset >= begin:
            yield from _quorum_records_of(data, position, header.base_offset)
        if header.next_offset >= end:
            return


def _quorum_records_of(data: Buffer, position: int, base_offset: int) -> Iterator[tuple[int, QuorumRecord]]:
    """Yield the quorum records of one control batch."""
    for delta, record in enumerate(decode_batch(data, position)):
        kind = control_record_type(record.key)
        if kind == ControlRecordType.KRAFT_VERSION:
            yield base_offset + delta, decode(KRaftVersionRecord, 0, bytes(record.value or b""))
        elif kind == ControlRecordType.KRAFT_VOTERS:
            yield base_offset + delta, decode(VotersRecord, 0, bytes(record.value or b""))
