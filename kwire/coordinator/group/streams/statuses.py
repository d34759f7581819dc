"""Statuses in heartbeat responses of streams groups, and the error for topics that do not fit a topology."""

from __future__ import annotations

from enum import IntEnum

from kwire.protocol.error_codes import shortened
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupStatus


class Status(IntEnum):
    """Code of a status in a StreamsGroupHeartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5

    def with_detail(self, detail: str) -> StreamsGroupStatus:
        return StreamsGroupStatus(status_code=self, status_detail=shortened(detail))


class TopicsRejectedError(Exception):
    """The existing topics do not fit the topology; the message says why."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def wrongly_partitioned(message: str) -> TopicsRejectedError:
    return TopicsRejectedError(Status.INCORRECTLY_PARTITIONED_TOPICS, message)
