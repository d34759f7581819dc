"""Snapshots of the metadata, made by every node for itself when enough was written since the last one (KIP-630).

A snapshot stands for everything committed before it. Older ones, and the log that the newest stands for, go when they
take too much space or are too old: who is behind by then fetches the snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from kwire.cluster.control_batches import kraft_version
from kwire.cluster.image_records import records_of
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.snapshots import encode_snapshot
from kwire.log.disk import DiskFullError
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
FLUSH_LOOK_SECONDS = 0.01
"""How often a snapshot that is ahead of this node's own flushes looks whether they have come."""
NO_SPACE_SECONDS = 60.0
"""After which a snapshot that found no space is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """Names are those of the settings, which begin with metadata."""

    bytes_between: int
    """log.max.record.bytes.between.snapshots."""
    interval_ms: int
    """log.max.snapshot.interval.ms; 0 is never."""
    retention_bytes: int
    """max.retention.bytes; negative is no limit."""
    retention_ms: int
    """max.retention.ms; negative is no limit."""


class Snapshotting:
    """One for each metadata log."""

    def __init__(self, metadata_log: MetadataLog, config: SnapshotConfig, *, clock: Clock) -> None:
        self._metadata_log = metadata_log
        self._config = config
        self._clock = clock
        self._size_at_last = 0
        """What log and snapshots took when the last snapshot was there."""
        self._last_ms = clock.monotonic_ms()

    async def run(self) -> None:
        """For as long as the node runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if self._is_due():
                    await self.make()
            except DiskFullError as full:
                logger.warning("no snapshot of the metadata: %s; the log stays as long as it is", full)
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
        """Whether there is anything that the newest snapshot does not stand for."""
        latest = self._metadata_log.node.log.latest_snapshot_id
        return self._metadata_log.image.offset >= (latest.offset if latest is not None else 0)

    async def make(self) -> OffsetAndEpoch | None:
        """A snapshot of the committed image, durable; None if a transaction is open, or there is a newer one by then.

        Others have their turns while it is made: the image does not change.
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
        while log.flushed_end_offset < snapshot_id.offset:  # the others may have it durable before this node
            await asyncio.sleep(FLUSH_LOOK_SECONDS)
        job = log.begin_snapshot(snapshot_id, content)
        await metadata_log.node.workers.run(job.run)
        latest = log.latest_snapshot_id
        if snapshot_id.offset < log.start_offset or (latest is not None and latest >= snapshot_id):
            log.drop_snapshot(job)
            return None
        log.finish_snapshot(job)
        history.forget_before(snapshot_id.offset - 1)
        self._size_at_last, self._last_ms = log.size_in_bytes, self._clock.monotonic_ms()
        logger.info("made a snapshot of the metadata up to offset %d", snapshot_id.offset)
        return snapshot_id

    def _clean(self) -> None:
        """Let go of what the newest snapshot stands for, when it takes too much space or is too old."""
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
