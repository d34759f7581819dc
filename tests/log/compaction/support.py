"""Synchronous compaction: the same work as the broker's cleaner, without its workers and its process."""

from __future__ import annotations

from kwire.log.compaction.candidates import Candidate, dirtiest
from kwire.log.compaction.plan import CleanedGroup, RoundEnd, RoundPlan
from kwire.log.compaction.round import run_round
from kwire.log.compaction.swap import Swap
from kwire.log.disk import Disk, RealDisk
from kwire.log.files import PendingDeletion
from kwire.log.not_ready import ready_at_once
from kwire.log.partition_log import PartitionLog
from kwire.protocol.compression import Codec
from kwire.protocol.records import Record, encode_batch
from tests.log.support import NOW_MS

MAP_BYTES = 1024**2

Pair = tuple[bytes | None, bytes | None]


def keyed(
    *pairs: Pair,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Return a batch of (key, value) records with timestamps one millisecond apart."""
    return encode_batch(
        [Record(key=key, value=value, timestamp=timestamp + index) for index, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: PartitionLog, *pairs: Pair, **options: int) -> int:
    """Append one batch and return its base offset."""
    return log.append(keyed(*pairs, **options), leader_epoch=0).base_offset  # type: ignore[arg-type]


def candidate_of(log: PartitionLog, now_ms: int = NOW_MS) -> Candidate | None:
    log.flush()
    return dirtiest([log], lambda found: found.last_stable_offset(found.log_end_offset), now_ms)


def compact(
    log: PartitionLog, disk: Disk | None = None, *, now_ms: int = NOW_MS, map_bytes: int = MAP_BYTES
) -> RoundEnd | None:
    """Run one compaction round if the log is due for compaction."""
    candidate = candidate_of(log, now_ms)
    if candidate is None:
        return None
    disk = disk or RealDisk()
    plan = RoundPlan.from_json(ready_at_once(lambda: candidate.plan(now_ms, map_bytes)).to_json())
    for report in run_round(disk, plan):
        if isinstance(report, CleanedGroup):
            swap_in(log, disk, report, now_ms)
        elif isinstance(report, RoundEnd):
            log.offsets.first_dirty = report.end_offset
            return report
    raise AssertionError("a round ends with its RoundEnd")


def swap_in(log: PartitionLog, disk: Disk, group: CleanedGroup, now_ms: int = NOW_MS) -> PendingDeletion:
    swap = Swap(log, disk, group, log.offsets.truncations)
    swap.decide()
    swap.sync()
    assert not swap.is_overtaken()
    pending = swap.replace(now_ms)
    swap.sync()
    swap.drop_suffix()
    return pending
