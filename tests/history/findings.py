"""Findings of the checks, with their verdicts."""

from __future__ import annotations

from dataclasses import dataclass

BAD = "bad"
ALLOWED = "allowed"
"""Verdict: Kafka's model allows it. Writes of transactions interleave; a subscriber's position moves with the group."""
REPORTED = "reported"
KNOWN = "known of v1"
"""Verdict: a delayed EndTxn affected a later transaction with the same epoch (client before KIP-890)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly."""

    name: str
    text: str
    verdict: str = BAD
    transactions: tuple[str, ...] = ()
    """Transactions with the affected records or offsets."""

    def __str__(self) -> str:
        return f"{self.name} ({self.verdict}): {self.text}"
