"""Memory of a full disk: how a log treats rejected batches when there is space again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import parse_header, with_offsets
from tests.log.faults import FaultyDisk, full
from tests.log.support import batch, marker, open_at, surroundings, values


def test_a_truncation_that_replays_a_marker_keeps_the_rejected_batch(tmp_path: Path) -> None:
    """The replayed marker is older than the rejected batch, so it must not clear the memory of the rejection."""
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk=disk))
    log.append(batch(producer_id=5, producer_epoch=0, sequence=0, transactional=True), leader_epoch=0)
    log.append(marker(5, 0, commit=True), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.append(batch(b"cut later"), leader_epoch=0)
    disk.fail = lambda operation, path: full(operation, path) if operation == "append" else None
    with pytest.raises(KafkaError):
        log.append(batch(producer_id=5, producer_epoch=0, sequence=1), leader_epoch=0)
    disk.fail = lambda *_: None
    log.truncate_to(2)
    with pytest.raises(KafkaError) as rejected:
        log.append(batch(producer_id=5, producer_epoch=0, sequence=2), leader_epoch=0)
    assert rejected.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_an_empty_segment_after_a_failed_append_is_replaced_for_lower_offsets(tmp_path: Path) -> None:
    """A follower began the segment for a batch that found no space; the next leader sends lower offsets."""
    disk = FaultyDisk()
    log = open_at(tmp_path, LogConfig(index_interval_bytes=100), surroundings(disk=disk))

    def replicate(offset: int) -> None:
        sent = batch(bytes(5000))
        stored = with_offsets(bytes(sent), offset, parse_header(sent).length, 0)
        log.append(stored, leader_epoch=0, origin=AppendOrigin.REPLICATION)

    replicate(0)
    disk.fail = lambda operation, path: full(operation, path) if operation == "append" else None
    with pytest.raises(KafkaError):
        replicate(2**31 + 5)
    disk.fail = lambda *_: None
    replicate(1)
    replicate(2)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert values(log) == [bytes(5000)] * 3
