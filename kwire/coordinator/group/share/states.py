"""Share coordinator as the group coordinator uses it: the delivery states of share groups' partitions."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kwire.coordinator.share.state import ShareSummary

UNINITIALIZED_OFFSET = -1
"""Start offset of a partition whose group has not read yet: share.auto.offset.reset decides."""


class ShareStates(Protocol):
    """Share coordinator. Each method raises KafkaError."""

    async def initialize_state(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        """Create the state of a partition, or replace that of an earlier epoch."""

    async def delete_state(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Delete the state of a partition; one that does not exist is ignored."""

    async def read_summary(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareSummary:
        """Return the summary of a partition's state."""
