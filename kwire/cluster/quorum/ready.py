"""Output of a step of the quorum: one value, which the driver carries out in the order of its fields.

A field may depend on the fields above it. Nothing of a field is done before the fields above it are durable. README.md
in this folder lists the driver's duties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kwire.cluster.channel import Destination
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.state import QuorumState
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.primitives import Buffer


class Send(NamedTuple):
    """Request to send; its outcome is passed to response() or unreachable() with the same correlation id."""

    correlation_id: int
    destination: Destination
    request: Any


class LogRead(NamedTuple):
    """Records to put into the response to a Fetch: from this offset to the end of the log."""

    offset: int
    max_bytes: int


class SnapshotRead(NamedTuple):
    """Bytes to put into the response to a FetchSnapshot."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class Answer(NamedTuple):
    """Response to the request with this token; the driver adds what `read` names."""

    token: Any
    response: Any
    read: LogRead | SnapshotRead | None = None


class ControlBatch(NamedTuple):
    """Records that the leader writes as one control batch, at the log end."""

    epoch: int
    records: list[tuple[ControlRecordType, Any]]


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched; position 0 begins its file, is_last ends it."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: Buffer
    is_last: bool


class Leadership(NamedTuple):
    """Leader of an epoch; leader_id is -1 if there is none or it is not known."""

    epoch: int
    leader_id: int
    is_established: bool
    """True on the leader if its first record of the epoch is committed, so that it may serve requests."""


@dataclass(slots=True, kw_only=True)
class Ready:
    """Output to carry out from top to bottom, before Quorum.done()."""

    store: QuorumState | None = None
    """New content of the quorum-state file, to be written durably."""
    truncate_to: int | None = None
    """Offset to truncate the log to, durably."""
    append_control: list[ControlBatch] = field(default_factory=list)
    append_records: Buffer | None = None
    """Batches from the leader, with their offsets and epochs."""
    snapshot_chunk: SnapshotChunk | None = None
    high_watermark: int | None = None
    leadership: Leadership | None = None
    answers: list[Answer] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True without any output. It is evaluated after each step, and therefore creates no Ready to compare with."""
        return not (
            self.answers
            or self.sends
            or self.append_control
            or self.store is not None
            or self.truncate_to is not None
            or self.append_records is not None
            or self.snapshot_chunk is not None
            or self.high_watermark is not None
            or self.leadership is not None
        )
