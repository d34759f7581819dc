"""Seeks and offset lookups: inside batches, by timestamp, at both ends."""

import pytest
from aiokafka import TopicPartition

from compat_tests.aiokafka_client.client import as_record, consumer, create_topic, producer, read, read_from, send_all
from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS, TIMESTAMP_STEP_MS, numbered

RECORDS = numbered(60)


async def fill(bootstrap, topic):
    """Fill one partition with 60 records in three batches."""
    await create_topic(bootstrap, topic)
    async with producer(bootstrap, linger_ms=100, compression_type="snappy") as client:
        for start in (0, 20, 40):
            await send_all(client, topic, RECORDS[start : start + 20])


@pytest.mark.short
async def test_reading_starts_exactly_at_the_offset_sought_inside_a_batch(bootstrap, topic):
    await fill(bootstrap, topic)
    for offset in (0, 1, 19, 20, 33, 59):
        received = await read_from(bootstrap, topic, 60 - offset, offset=offset)
        assert [as_record(each) for each in received] == RECORDS[offset:]
        assert received[0].offset == offset


async def test_both_ends_and_the_high_watermark_are_known(bootstrap, topic):
    await fill(bootstrap, topic)
    where = TopicPartition(topic, 0)
    async with consumer(bootstrap) as client:
        assert await client.beginning_offsets([where]) == {where: 0}
        assert await client.end_offsets([where]) == {where: 60}
        client.assign([where])
        await client.seek_to_beginning(where)
        await read(client, 60)
        assert (client.highwater(where), client.last_stable_offset(where)) == (60, 60)
        await client.seek_to_end(where)
        assert await client.position(where) == 60


@pytest.mark.short
async def test_offsets_are_found_by_timestamp(bootstrap, topic):
    await fill(bootstrap, topic)
    where = TopicPartition(topic, 0)
    async with consumer(bootstrap) as client:
        for after_ms, expected in ((-100_000, 0), (0, 0), (1, 1), (255, 26), (590, 59)):
            found = (await client.offsets_for_times({where: FIRST_TIMESTAMP_MS + after_ms}))[where]
            assert (found.offset, found.timestamp) == (expected, FIRST_TIMESTAMP_MS + expected * TIMESTAMP_STEP_MS)
        assert (await client.offsets_for_times({where: FIRST_TIMESTAMP_MS + 591})) == {where: None}


async def test_an_offset_out_of_range_follows_the_reset_policy(bootstrap, topic):
    await fill(bootstrap, topic)
    received = await read_from(bootstrap, topic, 60, offset=10_000)
    assert [each.offset for each in received] == list(range(60))


async def test_small_fetches_and_both_isolation_levels_read_everything(bootstrap, topic):
    await fill(bootstrap, topic)
    for isolation in ("read_uncommitted", "read_committed"):
        received = await read_from(bootstrap, topic, 60, max_partition_fetch_bytes=100, isolation_level=isolation)
        assert [as_record(each) for each in received] == RECORDS
