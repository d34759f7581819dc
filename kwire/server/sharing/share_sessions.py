"""Share sessions: the broker keeps the partitions that a member fetches, so that requests contain only changes.

A request names the group, the member and an epoch:

    epoch 0     opens a session, in place of the member's previous one
    epoch -1    closes the session
    epoch > 0   is the next request of the session; it adds the named partitions, and drops the forgotten ones

The epoch counts the requests, also those that only acknowledge. A session ends with its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode, KafkaError

OPENS: Final = 0
CLOSES: Final = -1
EPOCH_MAX: Final = 2**31 - 1
PARTITIONS_MAX: Final = 200_000
"""Limit of the partitions of all sessions: with their index entries some 40 MB."""

SessionKey = tuple[str, str]
"""Group id and member id."""
PartitionKey = tuple[UUID, int]
"""Topic id and partition index."""


class ShareSession:
    """Share session of one member."""

    __slots__ = ("epoch", "key", "number", "partitions", "to_name")

    def __init__(self, key: SessionKey, number: int, partitions: Iterable[PartitionKey]) -> None:
        self.key = key
        self.number = number
        """Increases with each session of the broker."""
        self.epoch = 1
        """Epoch that the next request must have."""
        self.partitions: dict[PartitionKey, None] = dict.fromkeys(partitions)
        """Fetched partitions; those that had records lately come last."""
        self.to_name: set[PartitionKey] = set()
        """Partitions that the next response names also without records: they are new, or had an error before."""

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def had_records(self, key: PartitionKey) -> None:
        """Move a partition behind the others, so that all are read in turn."""
        if key in self.partitions:
            del self.partitions[key]
            self.partitions[key] = None

    def named(self, key: PartitionKey, *, has_error: bool) -> None:
        """Note that a response names a partition."""
        if has_error and key in self.partitions:
            self.to_name.add(key)
        else:
            self.to_name.discard(key)


class ShareSessions:
    """Share sessions of all members that use this broker."""

    def __init__(self, sessions_max: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._groups: dict[str, int] = {}
        """Number of sessions by group id."""
        self._partition_count = 0
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def keys(self) -> list[SessionKey]:
        return list(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_group(self, group_id: str) -> bool:
        """Return True if a member of a group has a session."""
        return group_id in self._groups

    def open(self, key: SessionKey, partitions: Iterable[PartitionKey]) -> ShareSession:
        """Open a session in place of the member's previous one. Raises KafkaError if there are too many.

        Then the previous session stays, and ends with its connection.
        """
        self._last_number += 1
        session = ShareSession(key, self._last_number, partitions)
        size, others, partition_count = len(session.partitions), len(self._sessions), self._partition_count
        previous = self._sessions.get(key)
        if previous is not None:
            others -= 1
            partition_count -= len(previous.partitions)
        if others >= self._sessions_max() or partition_count + size > PARTITIONS_MAX:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.remove(key)
        self._sessions[key] = session
        self._groups[key[0]] = self._groups.get(key[0], 0) + 1
        self._partition_count += size
        return session

    def find(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request. Raises KafkaError."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (CLOSES, session.epoch):
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def update(self, session: ShareSession, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """Add and drop partitions. Raises KafkaError if there are too many."""
        partitions = session.partitions
        before = len(partitions)
        for key in added:
            if key not in partitions and self._partition_count + len(partitions) - before >= PARTITIONS_MAX:
                self._partition_count += len(partitions) - before
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            if key not in partitions:
                partitions[key] = None
                session.to_name.add(key)
        for key in forgotten:
            partitions.pop(key, None)
            session.to_name.discard(key)
        self._partition_count += len(partitions) - before

    def remove(self, key: SessionKey) -> ShareSession | None:
        """Remove and return a session."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            self._groups[key[0]] -= 1
            if not self._groups[key[0]]:
                del self._groups[key[0]]
        return session
