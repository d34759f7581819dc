"""Scrubbing: verifies the CRC of every batch in every closed segment, a little at a time.

Disks may corrupt data that is not read for months. A pass detects that while another replica may still be intact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kwire.log.disk import DiskFailure
from kwire.log.errors import NotReadyError
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import Segment
from kwire.protocol.error_codes import KafkaError

STEP_BYTES: Final = 64 * 1024
"""Bytes per step, which the event loop can check between two requests. A larger batch is read whole."""


def one_pass(logs: Iterable[PartitionLog], is_current: Callable[[PartitionLog], bool]) -> Iterator[int]:
    """Check all closed segments of the logs; yield the bytes read by each step, which the caller spreads over time.

    A damaged log goes offline, and the pass continues with the next one. Segments and logs may be added or removed
    between two steps; logs for which is_current returns False are skipped.
    """
    for log in logs:
        yield from _check(log, is_current)


def _check(log: PartitionLog, is_current: Callable[[PartitionLog], bool]) -> Iterator[int]:
    checked: Segment | None = None  # a log that has failed may have none
    position, truncations = 0, log.offsets.truncations
    while log.failure is None and is_current(log):
        index = 0 if checked is None else log.segments.index_of(checked.base_offset)
        segment = log.segments[index]
        if segment is not checked or log.offsets.truncations != truncations:
            # The segment was replaced by retention or compaction, or was truncated and has other batches now.
            checked, position, truncations = segment, 0, log.offsets.truncations
        if segment is log.segments.active:
            return
        try:
            size = log.check_stored(segment, position, STEP_BYTES)
        except NotReadyError:
            yield 0
            continue
        except (KafkaError, DiskFailure):  # the log is offline, which is already logged
            return
        if size == 0:
            checked, position = log.segments[index + 1], 0
        else:
            position += size
            yield size
