"""Checks of request fields that the heartbeats of all kinds of groups share."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError


def check_not_blank(text: str | None, message: str) -> None:
    """Raise INVALID_REQUEST for a text of white space only; None is allowed."""
    if text is not None and not text.strip():
        raise invalid(message)


def invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
