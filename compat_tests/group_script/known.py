"""Values from one broker's responses, from which the next requests are built, and the steps of a script."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
KINDS = (CONSUMER, SHARE, STREAMS)
MEMBERS = 6

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID)

Assigned = dict[str, list[int]]
"""Partitions by topic, or tasks by subtopology."""


@dataclass(slots=True)
class Member:
    """State that a client keeps for itself."""

    epoch: int = 0
    """0 if it is not in the group."""
    owned: Assigned = field(default_factory=dict)
    standby: Assigned = field(default_factory=dict)
    session_epoch: int = 0
    """Epoch of the next ShareFetch or ShareAcknowledge."""
    acquired: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Topic, partition, first and last offset of the records that it has to acknowledge."""

    def answered(self, request: Any, answer: Any) -> bool:
        """Note the epoch in the response of a heartbeat; return True if the member is in the group and was accepted."""
        if answer.error_code in LOST or (not answer.error_code and request.member_epoch < 0):
            self.epoch, self.owned, self.standby = 0, {}, {}
        elif not answer.error_code:
            self.epoch = answer.member_epoch
            return True
        return False


@dataclass(slots=True)
class Known:
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    members: dict[tuple[str, str], Member] = field(default_factory=dict)
    """By group and member id."""

    def member(self, group: str, member_id: str) -> Member:
        return self.members.setdefault((group, member_id), Member())

    def topic_id(self, name: str) -> UUID:
        """Return the id of a topic; a topic that is not there has an unknown id of its own."""
        return self.topic_ids.get(name) or UUID(bytes=name.encode().ljust(16)[:16])

    def topic_name(self, topic_id: UUID) -> str:
        """Return the name, or "deleted" for a topic that is not there any more."""
        return next((name for name, each in self.topic_ids.items() if each == topic_id), "deleted")


def ignore(known: Known, request: Any, answer: Any) -> None:
    """Learn nothing."""


@dataclass(slots=True, kw_only=True)
class Step:
    version: int
    build: Callable[[Known, random.Random], Any]
    """Returns the request; the random source is the same for both brokers."""
    learn: Callable[[Known, Any, Any], None] = ignore
    """Called with the request and the response."""
    groups: tuple[str, ...] = ()
    """Groups whose descriptions are compared after the step."""
    changes_topics: bool = False


def member_id(number: int) -> str:
    """Return a member id as clients generate them: a UUID."""
    return str(UUID(int=(0x4B << 120) + number, version=4))


def often(source: random.Random, share: float) -> bool:
    return source.random() < share


def some(source: random.Random, items: list[Any]) -> list[Any]:
    return [each for each in items if often(source, 0.6)]


def wrong_epoch(source: random.Random, epoch: int) -> int:
    return source.choice((epoch - 1, epoch + 1, epoch + 1, -3, 1_000, max(epoch - 2, 0)))


def sorted_assigned(assigned: Assigned) -> Assigned:
    return {name: sorted(assigned[name]) for name in sorted(assigned) if assigned[name]}
