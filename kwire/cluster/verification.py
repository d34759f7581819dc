"""Batches that wait at a transaction's gate (kwire.coordinator.transaction.gate), as their partition keeps them."""

from __future__ import annotations

from collections.abc import Callable

from kwire.protocol.error_codes import KafkaError


class Verification:
    """Batches of one producer and epoch that wait until they are known to be part of its transaction."""

    __slots__ = ("question", "refusal", "waiting")

    def __init__(self, question: object) -> None:
        self.question = question
        """The request to the transaction coordinator that all waiting batches share."""
        self.waiting: list[tuple[int, Callable[[KafkaError | None], KafkaError | None]]] = []
        """(sequence, kwire.coordinator.transaction.gate.Entered), in the order in which they came."""
        self.refusal: KafkaError | None = None
        """Why nothing of it is stored, whatever its coordinator says: the transaction, or the leader epoch, has ended
        meanwhile."""
