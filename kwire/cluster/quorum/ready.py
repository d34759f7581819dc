"""What a step of the quorum wants done: one value, taken and carried out by the driver in the order of its fields.

The rule that holds everything together: what stands lower may depend on what stands higher, so nothing of it happens
before that is durable. See the folder's README for the driver's duties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.state import QuorumState
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.primitives import Buffer


class Destination(NamedTuple):
    """A node to send to. A bootstrap server, whose id is not known, has one of -2 and below."""

    node_id: int
    host: str
    port: int


class Send(NamedTuple):
    """A request; its outcome comes back as response() or unreachable() with the same correlation id."""

    correlation_id: int
    destination: Destination
    request: Any


class LogRead(NamedTuple):
    """Records to put into the answer of a Fetch: from this offset to the end of the log."""

    offset: int
    max_bytes: int


class SnapshotRead(NamedTuple):
    """Bytes to put into the answer of a FetchSnapshot."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class Answer(NamedTuple):
    """The response to a request, by the token that came with it; the driver fills in what is to be read."""

    token: Any
    response: Any
    read: LogRead | SnapshotRead | None = None


class ControlBatch(NamedTuple):
    """Records that the leader writes as one control batch, at the log's end."""

    epoch: int
    records: list[tuple[ControlRecordType, Any]]


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched; position 0 begins its file, is_last ends it."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: Buffer
    is_last: bool


class Leadership(NamedTuple):
    """Who leads; leader_id is -1 when nobody does or it is not known."""

    epoch: int
    leader_id: int
    is_established: bool
    """Of this replica as the leader: its first record of the epoch is committed, so that it may serve."""


@dataclass(slots=True, kw_only=True)
class Ready:
    """Carry out from top to bottom, then call Quorum.done()."""

    store: QuorumState | None = None
    """Replace the quorum-state file, durably."""
    truncate_to: int | None = None
    """Cut the log back to end at this offset, durably."""
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
        """Asked after each step: hence no comparison with a new Ready."""
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
