"""Key of a share partition: a share group, a topic id and a partition of the topic."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.uuids import uuid_from_text, uuid_to_text

PARTS: Final = 3
INT32_MAX: Final = (1 << 31) - 1
_NUMBER = re.compile(r"[+-]?\d+")
_JAVA_SPACE = "".join(map(chr, range(ord(" ") + 1)))
"""Characters that Java's String.trim removes."""


class ShareKey(NamedTuple):
    """Share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Text whose hash selects the partition of __share_group_state."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


def parse_share_key(text: str) -> ShareKey:
    """Return the key of FindCoordinator's text groupId:topicId:partition; the group id may contain colons.

    As in Kafka, colons at the end are ignored. Raises KafkaError INVALID_REQUEST.
    """
    parts = text.rstrip(":").rsplit(":", PARTS - 1)
    if len(parts) < PARTS:
        raise _invalid(text, "expected groupId:topicId:partition")
    group_id, topic_text, number = parts
    if not group_id.strip(_JAVA_SPACE):
        raise _invalid(text, "the group id is empty")
    try:
        topic_id = uuid_from_text(topic_text)
    except ValueError as error:
        raise _invalid(text, str(error)) from error
    if not _NUMBER.fullmatch(number) or not -INT32_MAX - 1 <= int(number) <= INT32_MAX:
        raise _invalid(text, f"{number!r} is not a partition")
    return ShareKey(group_id, topic_id, int(number))


def _invalid(text: str, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid share coordinator key {text!r}: {reason}.")
