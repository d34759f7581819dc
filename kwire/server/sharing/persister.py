"""Interface of the persister: it stores the state of share partitions with the share coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode, KafkaError

NO_START_OFFSET: Final = -1
"""Start offset of a share partition that was initialized but never written: share.auto.offset.reset applies."""

_AS_SEEN_BY_CLIENTS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
FENCING: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors after which a share partition must be loaded again: another leader or a deletion has replaced its state."""

StoredBatch = tuple[int, int, int, int]
"""Tuple of first offset, last offset, delivery state and delivery count."""


class Persister(Protocol):
    """Store of the state of share partitions. Its methods raise KafkaError with the share coordinator's code."""

    async def read_state(
        self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int
    ) -> tuple[int, int, Sequence[StoredBatch]]:
        """Return the state epoch, the start offset and the batches from the start offset on, in ascending order.

        The leader epoch fences writes of earlier leaders.
        """

    async def write_state(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StoredBatch],
    ) -> None:
        """Store the start offset and the state of some records; return when they are durable.

        A share partition sends its next write after the previous one has ended.
        """


def error_for_clients(error: KafkaError) -> KafkaError:
    """Return the error that a client of the share partition receives for an error of the share coordinator."""
    code = _AS_SEEN_BY_CLIENTS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, error.message)
