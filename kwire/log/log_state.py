"""State of a log: its offsets, its segments and the data derived from them.

The modules that recover, replay, roll, flush and truncate a log receive a LogState, so that they do not depend on
PartitionLog, which combines their steps.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from kwire.log.config import LogConfig
from kwire.log.disk import Disk, DiskFailure
from kwire.log.errors import CorruptLogError, LogClosedError
from kwire.log.files import PendingDeletion
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_health import LogHealth
from kwire.log.log_offsets import LogOffsets
from kwire.log.producer_snapshots import ProducerSnapshots
from kwire.log.producer_state import ProducerState
from kwire.log.segments import Segments
from kwire.log.unsynced_paths import UnsyncedPaths
from kwire.seams import Clock, RandomSource


class LogState:
    """State of one partition's log."""

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        directory: str,
        disk: Disk,
        clock: Clock,
        random_source: RandomSource,
        config: LogConfig,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        offsets: LogOffsets,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.snapshots = snapshots
        self.offsets = offsets
        self.last_flush_ms = clock.monotonic_ms()
        self.health = LogHealth(f"{topic}-{partition}", clock)
        self.unsynced_paths = UnsyncedPaths()
        self.remove_later: Callable[[PendingDeletion], None] | None = None
        """Callback that receives the files of truncated segments; without it they are removed at once."""
        self.disk = disk
        self.clock = clock
        self.random_source = random_source

    @property
    def failure(self) -> DiskFailure | CorruptLogError | LogClosedError | None:
        """Reason why the log is offline, or None."""
        return self.health.failure

    # The offsets in `offsets`, by Kafka's names

    @property
    def log_start_offset(self) -> int:
        return self.offsets.start

    @property
    def log_end_offset(self) -> int:
        return self.offsets.end

    @property
    def recovery_point(self) -> int:
        return self.offsets.recovery_point

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"
