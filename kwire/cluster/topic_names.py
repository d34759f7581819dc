"""Rules for topic names, and the names of internal topics."""

from __future__ import annotations

import re

from kwire.protocol.error_codes import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str:
    """Return the reason why a topic name is invalid, in Kafka's words; empty if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return ""


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION for an invalid topic name."""
    why = why_invalid(name)
    if why:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def can_collide(name: str) -> bool:
    """Return True if another name may have the same collision key."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Return the key that names with equal metric names share: '.' becomes '_'."""
    return name.replace(".", "_")
