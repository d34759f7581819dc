"""A log directory after a clean stop of a broker: two segments, an aborted transaction, checkpoints."""

from __future__ import annotations

import uuid
from pathlib import Path

from kwire.cluster.directory import MetaProperties
from kwire.cluster.formatting.formatting import write_identity
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from kwire.protocol.compression import Codec
from tests.log.support import NOW_MS, batch, marker, surroundings

TOPIC_ID = uuid.UUID(int=2**100 + 7)
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=1)


def write_directory(path: Path) -> Path:
    """Write the files and return the partition's directory."""
    disk = RealDisk()
    write_identity(disk, str(path), MetaProperties(cluster_id="cluster", node_id=1, directory_id=uuid.UUID(int=77)))
    manager = LogManager([str(path)], surroundings(disk))
    log = manager.get_or_create("orders", 0, CONFIG, TOPIC_ID)
    for number in range(4):
        codec = list(Codec)[number]
        log.append(batch(b"one", b"two" * 40, timestamp=NOW_MS + number, codec=codec), leader_epoch=0)
    log.append(
        batch(b"aborted", timestamp=NOW_MS + 8, producer_id=5, producer_epoch=0, sequence=0, transactional=True),
        leader_epoch=1,
    )
    log.append(marker(5, 0, commit=False), leader_epoch=1, origin=AppendOrigin.COORDINATOR)
    for number in range(12):
        log.append(batch(b"\xff" * 90, b"caf\xc3\xa9", timestamp=NOW_MS + 20 + number), leader_epoch=3)
    manager.close(clean=True, broker_epoch=9, high_watermarks={("orders", 0): log.log_end_offset})
    return path / "orders-0"
