"""Records are returned byte for byte as they were sent, for every kind of record, codec, acks and batch."""

import pytest
from aiokafka.errors import MessageSizeTooLargeError

from compat_tests.aiokafka_client.client import as_record, create_topic, producer, read_from, send_all
from compat_tests.harness.payloads import CODECS, FIRST_TIMESTAMP_MS, Record, large_value, numbered, varied_records

# aiokafka rejects a record without key and value.
RECORDS = varied_records(both_null=False)


@pytest.mark.short
@pytest.mark.parametrize("codec", CODECS)
async def test_every_shape_of_record_survives_every_codec(bootstrap, topic, codec):
    await create_topic(bootstrap, topic)
    async with producer(bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50) as client:
        metadata = await send_all(client, topic, RECORDS)
    assert [each.offset for each in metadata] == list(range(len(RECORDS)))
    received = await read_from(bootstrap, topic, len(RECORDS))
    assert [as_record(each) for each in received] == RECORDS
    assert [each.offset for each in received] == list(range(len(RECORDS)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acknowledgement_setting_stores_the_records(bootstrap, topic, acks):
    await create_topic(bootstrap, topic)
    records = numbered(100)
    async with producer(bootstrap, acks=acks) as client:
        metadata = await send_all(client, topic, records)
    if acks != 0:
        assert [each.offset for each in metadata] == list(range(100))
    assert [as_record(each) for each in await read_from(bootstrap, topic, 100)] == records


@pytest.mark.short
async def test_idempotent_producer_writes_in_order_over_many_small_batches(bootstrap, topic):
    await create_topic(bootstrap, topic)
    records = numbered(500)
    async with producer(bootstrap, enable_idempotence=True, max_batch_size=400) as client:
        metadata = await send_all(client, topic, records)
    assert [each.offset for each in metadata] == list(range(500))
    assert [as_record(each) for each in await read_from(bootstrap, topic, 500)] == records


async def test_single_records_are_acknowledged_one_by_one(bootstrap, topic):
    await create_topic(bootstrap, topic)
    async with producer(bootstrap) as client:
        offsets = [(await client.send_and_wait(topic, b"%d" % number)).offset for number in range(20)]
    assert offsets == list(range(20))


async def test_a_batch_built_by_hand_is_one_batch(bootstrap, topic):
    await create_topic(bootstrap, topic, partitions=2)
    async with producer(bootstrap) as client:
        batch = client.create_batch()
        for number in range(10):
            batch.append(key=b"k", value=b"%d" % number, timestamp=FIRST_TIMESTAMP_MS + number)
        metadata = await (await client.send_batch(batch, topic, partition=1))
    assert (metadata.partition, metadata.offset) == (1, 0)
    received = await read_from(bootstrap, topic, 10, partition=1)
    assert [(each.value, each.timestamp) for each in received] == [
        (b"%d" % number, FIRST_TIMESTAMP_MS + number) for number in range(10)
    ]


async def test_keyed_records_of_one_key_stay_together(bootstrap, topic):
    await create_topic(bootstrap, topic, partitions=4)
    async with producer(bootstrap) as client:
        homes = {
            (number % 10, (await client.send_and_wait(topic, b"v", key=b"key-%d" % (number % 10))).partition)
            for number in range(40)
        }
    assert len(homes) == 10
    assert len({partition for _, partition in homes}) > 1


async def test_records_near_the_size_limit_pass_and_larger_ones_are_rejected(bootstrap, topic):
    await create_topic(bootstrap, topic)
    value = large_value(1_000_000)
    async with producer(bootstrap, max_request_size=8_000_000, max_batch_size=8_000_000) as client:
        assert (await client.send_and_wait(topic, value)).offset == 0
        with pytest.raises(MessageSizeTooLargeError):
            await client.send_and_wait(topic, large_value(1_100_000))
        assert (await client.send_and_wait(topic, b"after")).offset == 1
    assert [each.value for each in await read_from(bootstrap, topic, 2)] == [value, b"after"]


async def test_log_append_time_replaces_the_senders_timestamps(bootstrap, topic):
    await create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    async with producer(bootstrap) as client:
        (metadata,) = await send_all(client, topic, [Record(value=b"v", timestamp_ms=1_000_000)])
    (received,) = await read_from(bootstrap, topic, 1)
    assert received.timestamp_type == metadata.timestamp_type == 1
    assert received.timestamp == metadata.timestamp > FIRST_TIMESTAMP_MS
