"""What the checks find, and what is thought of it."""

from __future__ import annotations

from dataclasses import dataclass

BAD = "bad"
ALLOWED = "allowed"
"""Kafka's model has it: writes of transactions interleave, a subscriber's position moves with the group."""
REPORTED = "reported"
KNOWN = "known of v1"
"""What a delayed EndTxn does to a later transaction of a client without an epoch per transaction (before KIP-890)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly."""

    name: str
    text: str
    verdict: str = BAD
    transactions: tuple[str, ...] = ()
    """Those whose records or offsets it is about."""

    def __str__(self) -> str:
        return f"{self.name} ({self.verdict}): {self.text}"
