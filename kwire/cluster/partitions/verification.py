"""Batches that wait for verification of their transaction (kwire.coordinator.transaction.gate), per partition."""

from __future__ import annotations

from collections.abc import Callable

from kwire.protocol.error_codes import KafkaError


class Verification:
    """Batches of one producer id and epoch that wait until they are verified to be part of its transaction."""

    __slots__ = ("question", "refusal", "waiting")

    def __init__(self, question: object) -> None:
        self.question = question
        """Request to the transaction coordinator, shared by all waiting batches."""
        self.waiting: list[tuple[int, Callable[[KafkaError | None], KafkaError | None]]] = []
        """Waiting batches as (sequence, kwire.coordinator.transaction.gate.Entered), in their order of arrival."""
        self.refusal: KafkaError | None = None
        """Error for all waiting batches; set when the transaction or the leader epoch ends."""
