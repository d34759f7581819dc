"""Logs of internal partitions that load although kwire would write them differently."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.group.consumer.regexes import RegexSearch
from kwire.log.batch_validation import AppendOrigin
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeletableGroupResult
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from kwire.protocol.records import Record, encode_batch
from tests.coordinator.shard_bench import Bench, append
from tests.coordinator.world import World
from tests.hostile.frames import with_crc
from tests.log.support import NOW_MS
from tests.virtual_loop import virtual_loop


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with virtual_loop() as loop:
        yield Bench(tmp_path / "state-0", loop)


def test_records_below_the_start_of_the_log_are_not_loaded(bench: Bench) -> None:
    """The log begins inside a batch, which is still read whole."""

    async def main() -> None:
        records = [Record(key=key, value=b"1", timestamp=0) for key in (b"a", b"b", b"c")]
        append(bench.partition, encode_batch(records))
        bench.partition.delete_records_before(2)
        shard = await bench.lead()
        assert shard.machine.numbers == {"c": 1}

    bench.run(main)


def test_a_record_without_a_key_is_skipped_with_a_warning(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        records = [Record(key=key, value=b"1", timestamp=0) for key in (None, b"b")]
        append(bench.partition, encode_batch(records))
        shard = await bench.lead()
        assert shard.machine.numbers == {"b": 1}
        assert "offset 0 of " in caplog.text
        assert "has no key; skipped" in caplog.text

    bench.run(main)


def test_a_control_record_that_ends_no_transaction_is_skipped(bench: Bench) -> None:
    async def main() -> None:
        pending = [Record(key=b"a", value=b"1", timestamp=0)]
        append(
            bench.partition,
            encode_batch(pending, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
        )
        marker = EndTransactionMarker(is_commit=True, coordinator_epoch=0)
        batch = encode_marker_batch(marker, producer_id=7, producer_epoch=0, timestamp=0)
        at = batch.index(b"\0\0\0\1", 61)
        batch[at + 3] = 2
        append(bench.partition, bytearray(with_crc(batch)))
        shard = await bench.lead()
        assert list(shard.machine.pending) == [7]

    bench.run(main)


def test_offsets_in_the_oldest_record_version_are_loaded(tmp_path: Path) -> None:
    """Keys and values have version 0."""

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    key = struct.pack(">h", 0) + text(b"g") + text(b"t") + struct.pack(">i", 1)
    value = struct.pack(">hq", 0, 42) + text(b"why") + struct.pack(">q", NOW_MS)

    with virtual_loop() as loop:
        world = World(tmp_path, loop)

        async def main() -> None:
            await world.start()
            batch = encode_batch([Record(key=key, value=value, timestamp=NOW_MS)])
            world.offsets_partition().append(memoryview(batch), acks=-1, origin=AppendOrigin.COORDINATOR)
            world.stop()
            await world.start()
            asked = OffsetFetchRequestTopics(name="t", partition_indexes=[1])
            request = OffsetFetchRequestGroup(group_id="g", topics=[asked])
            answer = world.groups.fetch_offsets(request, require_stable=False)
            assert isinstance(answer, OffsetFetchResponseGroup)
            (found,) = answer.topics[0].partitions
            assert (found.committed_offset, found.metadata) == (42, "why")
            world.delete_topic(GROUP_OFFSETS_TOPIC)
            assert world.groups._runtime.find(0) is None
            world.stop()

        loop.run_until_complete(main())


def test_a_coordinator_that_has_stopped_deletes_no_group(tmp_path: Path) -> None:
    with virtual_loop() as loop:
        world = World(tmp_path, loop)

        async def main() -> None:
            await world.start()
            world.stop()
            answer = world.groups.delete_group("g")
            assert isinstance(answer, DeletableGroupResult)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

        loop.run_until_complete(main())


def test_a_regular_expression_that_re2_rejects_matches_no_topic(tmp_path: Path) -> None:
    """A broker with RE2/J has accepted it, and has stored it in a record of the group."""
    with virtual_loop() as loop:
        world = World(tmp_path, loop)
        search = RegexSearch(world.image, ["(", "t"], lambda _: True, 0)
        while not search.step():
            pass
        assert {regex: found.topics for regex, found in search.found().items()} == {"(": frozenset(), "t": {"t"}}
