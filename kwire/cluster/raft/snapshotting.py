"""Periodic snapshots of the metadata: every node makes its own when enough was written since the last one (KIP-630).

A snapshot replaces all records committed before it. Older snapshots, and the log before the newest one, are deleted
when they take too much space or are too old. A follower that is behind by then fetches the snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.image_records import records_of
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.raft.control_batches import kraft_version
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.snapshots import encode_snapshot
from kwire.log.disk import DiskFullError
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
FLUSH_CHECK_SECONDS = 0.01
"""Poll interval for this node's own flush, if a snapshot is ahead of it."""
NO_SPACE_SECONDS = 60.0
"""Delay before a snapshot that found no disk space is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """Settings of snapshots of the metadata log."""

    bytes_between: int = setting("metadata.log.max.record.bytes.between.snapshots")
    interval_ms: int = setting("metadata.log.max.snapshot.interval.ms")
    """0 means never."""
    retention_bytes: int = setting("metadata.max.retention.bytes")
    """Negative means no limit."""
    retention_ms: int = setting("metadata.max.retention.ms")
    """Negative means no limit."""


class Snapshotting:
    """Snapshot task of one metadata log."""

    def __init__(self, metadata_log: MetadataLog, config: SnapshotConfig, *, clock: Clock) -> None:
        self._metadata_log = metadata_log
        self._config = config
        self._clock = clock
        self._size_at_last = 0
        """Size of log and snapshots when the last snapshot was made."""
        self._last_ms = clock.monotonic_ms()

    async def run(self) -> None:
        """Make and delete snapshots while the node runs."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                if self._is_due():
                    await self.make()
            except DiskFullError as full:
                logger.warning("cannot make a snapshot of the metadata, will retry: %s", full)
                await asyncio.sleep(NO_SPACE_SECONDS)
            self._clean()

    def _is_due(self) -> bool:
        if not self._is_new():
            return False
        size = self._metadata_log.node.log.size_in_bytes - self._size_at_last
        interval_ms = self._config.interval_ms
        is_late = 0 < interval_ms <= self._clock.monotonic_ms() - self._last_ms
        return is_late or size >= self._config.bytes_between

    def _is_new(self) -> bool:
        """Return True if there are records that the newest snapshot does not cover."""
        latest = self._metadata_log.node.log.latest_snapshot_id
        return self._metadata_log.image.offset >= (latest.offset if latest is not None else 0)

    async def make(self) -> OffsetAndEpoch | None:
        """Make a durable snapshot of the committed image; None in a transaction, or if there is a newer one.

        Other tasks run while it is made: the image does not change.
        """
        metadata_log = self._metadata_log
        log, history, image = metadata_log.node.log, metadata_log.node.quorum.history, metadata_log.image
        if image.offset < 0 or metadata_log.is_in_transaction:
            return None
        snapshot_id = OffsetAndEpoch(image.offset + 1, image.epoch)
        controls: list[tuple[ControlRecordType, Any]] = []
        if history.kraft_version_at(snapshot_id.offset) > 0:
            voters = history.voters_at(snapshot_id.offset).to_record()
            controls = [kraft_version(), (ControlRecordType.KRAFT_VOTERS, voters)]
        now_ms = self._clock.wall_ms()
        content = []
        for chunk in encode_snapshot(
            records_of(image),
            controls=controls,
            epoch=snapshot_id.epoch,
            now_ms=now_ms,
            last_contained_timestamp_ms=now_ms,
            features=image.features,
        ):
            content.append(chunk)
            await asyncio.sleep(0)
        while log.flushed_end_offset < snapshot_id.offset:  # a majority may have it durable before this node
            await asyncio.sleep(FLUSH_CHECK_SECONDS)
        job = log.begin_snapshot(snapshot_id, content)
        await metadata_log.node.workers.run(job.run)
        latest = log.latest_snapshot_id
        if snapshot_id.offset < log.start_offset or (latest is not None and latest >= snapshot_id):
            log.drop_snapshot(job)
            return None
        log.finish_snapshot(job)
        history.remove_before(snapshot_id.offset - 1)
        self._size_at_last, self._last_ms = log.size_in_bytes, self._clock.monotonic_ms()
        logger.info("made a snapshot of the metadata up to offset %d", snapshot_id.offset)
        return snapshot_id

    def _clean(self) -> None:
        """Delete what the newest snapshot replaces, if it takes too much space or is too old."""
        log, config = self._metadata_log.node.log, self._config
        latest = log.latest_snapshot_id
        if latest is None or latest.offset <= log.start_offset:
            return
        is_large = 0 <= config.retention_bytes < log.size_in_bytes
        is_old = 0 <= config.retention_ms < log.age_ms
        if is_large or is_old:
            try:
                log.clean_before(latest)
            except KafkaError as error:
                logger.warning("cannot let go of old metadata: %s", error)
            self._size_at_last = min(self._size_at_last, log.size_in_bytes)
