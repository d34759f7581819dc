"""Order of the batches in a segment, which no CRC covers: offsets increase, leader epochs never decrease."""

from __future__ import annotations

from typing import Final

from kwire.log.errors import CorruptLogError
from kwire.protocol.records import BatchHeader

RELATIVE_OFFSET_MAX: Final = 2**31 - 1


def check_order(stem: str, base_offset: int, previous: BatchHeader | None, header: BatchHeader, position: int) -> None:
    """Raise CorruptLogError if a batch cannot follow the previous one in the segment that begins at base_offset."""
    lowest = base_offset if previous is None else previous.next_offset
    if not lowest <= header.base_offset <= header.last_offset <= base_offset + RELATIVE_OFFSET_MAX:
        raise CorruptLogError(
            f"{stem}.log: the batch at position {position} has offsets {header.base_offset} to "
            f"{header.last_offset}, which cannot follow on {lowest}"
        )
    epoch = header.partition_leader_epoch
    if epoch < -1 or (previous is not None and -1 < epoch < previous.partition_leader_epoch):
        raise CorruptLogError(f"{stem}.log: the leader epoch goes back at position {position}")
