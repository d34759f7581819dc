"""ProducerSnapshot: a `.snapshot` file of a partition's log with the state of its producers (KIP-98).

The file begins with the version as an int16, which is not part of the schema.
"""

from kwire.protocol.primitives import int16, int32, int64, uint32
from kwire.protocol.schema import field, message, struct


@struct
class ProducerSnapshotEntry:
    producer_id: int64 = field("1")
    epoch: int16 = field("1")
    last_sequence: int32 = field("1")
    last_offset: int64 = field("1")
    offset_delta: int32 = field("1")
    """Last offset of the last batch minus its first."""
    timestamp: int64 = field("1")
    """Largest timestamp of the last batch, in ms."""
    coordinator_epoch: int32 = field("1")
    """Coordinator epoch of the last transaction marker."""
    current_txn_first_offset: int64 = field("1")
    """-1 if no transaction is open."""


@message(kind="data", versions="1")
class ProducerSnapshot:
    crc: uint32 = field("1")
    """CRC-32C of all bytes after it."""
    producer_entries: list[ProducerSnapshotEntry] = field("1")
