"""Which brokers hold a new partition's replicas."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.protocol.error_codes import ErrorCode, KafkaError


def place(brokers: Sequence[int], *, first_partition: int, partitions: int, replication_factor: int) -> list[list[int]]:
    """Replicas for each of the new partitions, the preferred leader first; leaders go round the brokers.

    Raises KafkaError INVALID_REPLICATION_FACTOR when there are too few brokers.
    """
    unable = f"Unable to replicate the partition {replication_factor} time(s): "
    if not brokers:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, unable + "All brokers are currently fenced.")
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{unable}The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered.",
        )
    ordered = sorted(brokers)
    return [
        [ordered[(first_partition + index + step) % len(ordered)] for step in range(replication_factor)]
        for index in range(partitions)
    ]
