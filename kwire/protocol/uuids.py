"""UUIDs as Kafka prints them: URL-safe base64 of the 16 bytes, without padding (22 characters)."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID


def uuid_to_text(value: UUID) -> str:
    """The 22 characters that Kafka's tools and files show."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """The UUID that 22 characters name; ValueError when they name none."""
    try:
        data = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64 UUID") from error
    if len(data) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a base64 UUID of 22 characters")
    return UUID(bytes=data)
