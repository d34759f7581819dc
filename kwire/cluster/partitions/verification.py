"""Batches that wait for verification of their transaction (kwire.coordinator.transaction.verifier), per partition."""

from __future__ import annotations

from collections.abc import Callable

from kwire.protocol.error_codes import KafkaError


class Verification:
    """Batches of one producer id and epoch that wait until they are verified to be part of its transaction."""

    __slots__ = ("claim", "error", "waiting")

    def __init__(self, claim: object) -> None:
        self.claim = claim
        """Transaction that all waiting batches claim to belong to (kwire.coordinator.transaction.verifier)."""
        self.waiting: list[tuple[int, Callable[[KafkaError | None], KafkaError | None]]] = []
        """Waiting batches as (sequence, kwire.coordinator.transaction.verifier.OnVerified), by arrival."""
        self.error: KafkaError | None = None
        """Error for all waiting batches; set when the transaction or the leader epoch ends."""
