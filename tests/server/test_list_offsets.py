"""ListOffsets on a leader whose high watermark is below the start offset of its epoch (KIP-207)."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.chunks import at_once
from kwire.cluster.partitions.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_offsets import (
    CONSUMER,
    DEBUGGER,
    EARLIEST,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.records import BATCH_HEADER_BYTES
from kwire.repeated_messages import RepeatedMessages
from kwire.server.apis.records import list_offsets
from tests.cluster.replication.world import KnownPeers, fetched, image, replica
from tests.hostile.frames import with_crc
from tests.log.support import NOW_MS, batch, with_deltas

NEWEST = 11


def new_leader(directory: Path) -> Partition:
    """Return a leader whose epoch starts at offset 3, with high watermark 1; timestamps are 100 more than offsets."""
    peers = KnownPeers()
    partition = replica(directory, image((1,)), peers)
    for offset in range(3):
        partition.append(batch(b"v", timestamp=100 + offset), 1)
    partition.high_watermark = 1
    partition.update(image((1, 2), leader_epoch=1, partition_epoch=1), is_led=True)
    assert partition.high_watermark == 1
    return partition


def unreadable(codec: Codec) -> bytes:
    """Return a batch with a valid CRC and invalid compressed records."""
    broken = batch(b"a" * 50, b"b" * 50, codec=codec)
    for position in range(BATCH_HEADER_BYTES, BATCH_HEADER_BYTES + 4):
        broken[position] ^= 0xFF
    return with_crc(broken)


def ask(
    partition: Partition,
    timestamp: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
    version: int = NEWEST,
    replica_id: int = CONSUMER,
) -> tuple[ErrorCode, int]:
    context: Any = SimpleNamespace(
        version=version,
        allows_topic=lambda _: True,
        services=SimpleNamespace(
            partitions=SimpleNamespace(find=lambda *_, **__: partition),
            large_batches=None,
            messages=RepeatedMessages(logging.getLogger("kwire"), lambda: 0.0),
        ),
    )
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=[asked])
    response: Any = list_offsets.handle_list_offsets(request, context)
    if isinstance(response, Generator):
        response = at_once(response)
    assert isinstance(response, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


NOT_YET = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, 101, 1000])
def test_a_new_leader_returns_offset_not_available_below_its_epoch_start(
    tmp_path: Path, timestamp: int, isolation_level: int
) -> None:
    partition = new_leader(tmp_path)
    assert ask(partition, timestamp, isolation_level=isolation_level) == NOT_YET
    fetched(partition, 2, 2)
    assert ask(partition, LATEST, isolation_level=isolation_level) == NOT_YET, "2 is committed, 3 may have been seen"


@pytest.mark.parametrize(("timestamp", "offset"), [(EARLIEST, 0), (0, 0), (LATEST_TIERED, -1)])
def test_a_new_leader_returns_committed_offsets(tmp_path: Path, timestamp: int, offset: int) -> None:
    assert ask(new_leader(tmp_path), timestamp) == (ErrorCode.NONE, offset)


def test_before_version_5_offset_not_available_is_leader_not_available(tmp_path: Path) -> None:
    partition = new_leader(tmp_path)
    assert ask(partition, LATEST, version=4)[0] is ErrorCode.LEADER_NOT_AVAILABLE
    assert ask(partition, LATEST, version=5)[0] is ErrorCode.OFFSET_NOT_AVAILABLE


@pytest.mark.parametrize("replica_id", [DEBUGGER, 2])
def test_followers_and_debug_consumers_see_the_log_end(tmp_path: Path, replica_id: int) -> None:
    assert ask(new_leader(tmp_path), LATEST, replica_id=replica_id) == (ErrorCode.NONE, 3)
    assert ask(new_leader(tmp_path), MAX_TIMESTAMP, replica_id=replica_id) == (ErrorCode.NONE, 2)


def test_offsets_are_available_when_the_high_watermark_reaches_the_epoch_start(tmp_path: Path) -> None:
    partition = new_leader(tmp_path)
    partition.append(batch(b"v", timestamp=103), 1)
    fetched(partition, 2, 3)
    assert ask(partition, LATEST) == (ErrorCode.NONE, 3)
    assert ask(partition, 102) == (ErrorCode.NONE, 2)
    assert ask(partition, 103) == (ErrorCode.NONE, -1), "not committed, and not visible"


def test_a_timestamp_that_leaves_64_bits_is_just_another_one(tmp_path: Path) -> None:
    partition = replica(tmp_path, image((1,)), KnownPeers())
    partition.append(with_deltas((0, b"a", b""), (2**63 - 1, b"b", b""), (7, b"c", b"")), 1)
    assert ask(partition, NOW_MS) == (ErrorCode.NONE, 0)
    assert ask(partition, NOW_MS + 1) == (ErrorCode.NONE, 2)
    assert ask(partition, NOW_MS + 8) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, 0])
def test_records_that_cannot_be_decompressed_fail_only_their_lookup(
    tmp_path: Path, codec: Codec, timestamp: int, caplog: pytest.LogCaptureFixture
) -> None:
    partition = replica(tmp_path, image((1,)), KnownPeers())
    partition.append(unreadable(codec), 1)
    for _ in range(2):
        assert ask(partition, timestamp) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert ask(partition, LATEST) == (ErrorCode.NONE, 2)
    assert caplog.text.count(f"Cannot look into {partition.topic}-0") >= 1
