"""Writes of timers that are repeated until they succeed: a member that was not removed would stay forever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import KafkaError

RETRY_MS: Final = 500
"""Time after which a failed write of a timer is repeated, as in Kafka."""


def repeated(write: Write[GroupRecord, None], schedule: Callable[[], None]) -> Write[GroupRecord, None]:
    """Return the write, which calls `schedule` if it fails; its own outcome is called first."""
    first = write.outcome

    def outcome(error: KafkaError | None) -> None:
        if first is not None:
            first(error)
        if error is not None:
            schedule()

    write.outcome = outcome
    return write
