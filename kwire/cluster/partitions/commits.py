"""Waiting for a condition of a partition, such as a committed append, or replicas that have caught up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError


async def committed(partition: Partition, last_offset: int) -> None:
    """Return when the high watermark is above last_offset. Raises what `until` raises."""
    if partition.high_watermark <= last_offset:
        await until(partition, lambda: partition.high_watermark > last_offset)


async def until(partition: Partition, is_fulfilled: Callable[[], bool], *, for_log_end: bool = False) -> None:
    """Return when the condition is fulfilled.

    It is checked after each commit. With `for_log_end` it is checked after appends, flushes, changes of the metadata,
    and changes of a follower's log start offset.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR if it can never be fulfilled,
    NOT_LEADER_OR_FOLLOWER if the partition is no longer led here.
    """
    await _Wait(partition, is_fulfilled, for_log_end=for_log_end).future


class _Wait:
    """Waiter that checks a condition each time its partition notifies it."""

    def __init__(self, partition: Partition, is_fulfilled: Callable[[], bool], *, for_log_end: bool) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partition = partition
        self._is_fulfilled = is_fulfilled
        self.future.add_done_callback(lambda _: partition.stop_waiting(self))
        partition.wait(self, for_log_end=for_log_end)
        self.state_changed()  # the partition does not notify of earlier changes

    def data_available(self, size: int) -> None:
        self._check()

    def state_changed(self) -> None:
        self._check()
        if self.future.done():
            return
        if self._partition.is_removed:
            self.future.set_exception(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif self._partition.log.failure is not None:
            self.future.set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        elif not self._partition.is_led:
            self.future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _check(self) -> None:
        if not self.future.done() and self._is_fulfilled():
            self.future.set_result(None)
