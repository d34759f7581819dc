"""Checks of request fields that the heartbeats of all kinds of groups share."""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError

ID_CHARACTERS_MAX: Final = 1_000
"""Longest id, rack or host of a member. Assignors hash ids, and Kafka's clients send at most 36 characters."""


def check_not_blank(text: str | None, message: str) -> None:
    """Raise INVALID_REQUEST for a text of white space only; None is allowed."""
    if text is not None and not text.strip():
        raise invalid(message)


def check_length(text: str | None, name: str) -> None:
    """Raise INVALID_REQUEST for a text that is too long to be kept and hashed; Kafka accepts 32,767 bytes."""
    if text is not None and len(text) > ID_CHARACTERS_MAX:
        raise invalid(f"{name} has {len(text)} characters; this broker accepts at most {ID_CHARACTERS_MAX}.")


def invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
