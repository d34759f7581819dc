"""First offset of a share partition: share.auto.offset.reset, and the isolation level of its members."""

from __future__ import annotations

import re
from typing import Final

from kwire.chunks import Steps
from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kwire.log.large_batches import LargeBatches
from kwire.log.partition_log import PartitionLog
from kwire.log.timestamp_search import TimestampSearch
from kwire.protocol.compression import CompressionError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import InvalidRecordsError
from kwire.server.sharing.config import ShareGroupSettings

_DURATION: Final = re.compile(
    r"[+]?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{0,9})?)S)?)?", re.IGNORECASE | re.ASCII
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)


def isolation_level_of(settings: ShareGroupSettings) -> int:
    """Return the isolation level of a group's members."""
    return READ_COMMITTED if settings.isolation_level == "read_committed" else READ_UNCOMMITTED


def first_offset(partition: Partition, reset: str, large_batches: LargeBatches, now_ms: int) -> Steps[int]:
    """Return the offset at which a new share partition starts. Raises KafkaError."""
    if reset == "earliest":
        return partition.log.log_start_offset
    kind, _, duration = reset.partition(":")
    if kind == "by_duration":
        yield None

        def log_now() -> PartitionLog:
            if partition.is_removed or not partition.is_led:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return partition.log

        try:
            found = yield from TimestampSearch(log_now, large_batches).first(now_ms - duration_ms(duration))
        except (CompressionError, InvalidRecordsError) as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch cannot be read: {error}") from error
        if found is not None and found.offset < partition.high_watermark:
            return found.offset
    partition.check_end_known()
    return partition.high_watermark


def duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration of days, hours, minutes and seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text}")
    return sum(round(float(part or "0") * unit) for part, unit in zip(match.groups(), _UNITS_MS, strict=True))
