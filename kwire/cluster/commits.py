"""Waiting until an append is committed: until the high watermark has passed it."""

from __future__ import annotations

import asyncio

from kwire.cluster.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError


async def committed(partition: Partition, last_offset: int) -> None:
    """Return when the high watermark is above last_offset.

    Raises KafkaError: KAFKA_STORAGE_ERROR if it never will be, NOT_LEADER_OR_FOLLOWER when others decide that now.
    """
    if partition.high_watermark <= last_offset:
        await _CommitWait(partition, last_offset).future


class _CommitWait:
    """One append that waits; its partition tells it of every flush and of the end."""

    def __init__(self, partition: Partition, last_offset: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partition = partition
        self._last_offset = last_offset
        self.future.add_done_callback(lambda _: partition.stop_waiting(self))
        partition.wait(self)
        self.more_data(0)  # what has ended before tells nobody

    def more_data(self, size: int) -> None:
        if self.future.done():
            return
        if self._partition.high_watermark > self._last_offset:
            self.future.set_result(None)
        elif size == 0 and (self._partition.log.failure is not None or self._partition.is_removed):
            self.future.set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        elif size == 0 and not self._partition.is_led:
            self.future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
