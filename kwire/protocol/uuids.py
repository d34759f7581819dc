"""UUIDs in Kafka's text form: URL-safe base64 of the 16 bytes, without padding (22 characters)."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID


def uuid_to_text(value: UUID) -> str:
    """Return the 22 characters that Kafka's tools and files use."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """Return the UUID of 22 base64 characters. Raises ValueError for any other text."""
    try:
        data = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64 UUID") from error
    if len(data) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    return UUID(bytes=data)
