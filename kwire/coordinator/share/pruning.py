"""Deletion of records of __share_group_state that later snapshots have replaced.

The topic is not compacted. Each partition of the topic keeps the records from the oldest snapshot on that is the last
one of its share partition. The log start moves up to that offset once all replayed records are committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kwire.chunks import turn
from kwire.coordinator.shard import Shard, ShardState, Write
from kwire.coordinator.share.machine import ShareMachine
from kwire.coordinator.share.records import ShareRecord
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

ShareShard = Shard[ShareRecord, ShareMachine]


async def prune_repeatedly(shards: Callable[[], Iterable[ShareShard]], interval_ms: int) -> None:
    """Delete old records of all active shards after each interval, one shard in a step of the event loop."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        for shard in list(shards()):
            await turn()
            if shard.state is ShardState.ACTIVE:
                prune(shard)


def prune(shard: ShareShard) -> None:
    """Delete the records of a shard that are not needed, once everything that was replayed is committed."""
    offset = shard.machine.lowest_needed_offset()
    partition = shard.partition
    if offset <= partition.log.log_start_offset:
        return

    def outcome(error: KafkaError | None) -> None:
        if error is not None or shard.state is not ShardState.ACTIVE:
            return
        try:
            partition.delete_records_before(offset)
        except (KafkaError, DiskFailure) as failure:
            logger.warning("%r: records before offset %d cannot be deleted: %s", partition.log, offset, failure)

    shard.attempt(Write(answer=None, outcome=outcome))
