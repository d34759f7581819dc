"""Valid UTF-8 for clients: a path may contain bytes that are not UTF-8, but a string of the protocol must be."""

from __future__ import annotations


def readable(text: str) -> str:
    """Return the text with replacement characters for such bytes, as Apache Kafka shows them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
