"""Text that clients are told: a path may hold bytes that are no UTF-8, which no string of the protocol can."""

from __future__ import annotations


def readable(text: str) -> str:
    """The text with replacement characters for such bytes, as Apache Kafka shows them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
