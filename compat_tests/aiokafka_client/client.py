"""Helpers for aiokafka, as applications call it, that the tests of this folder share."""

import asyncio
import time
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import DeadlineExceededError


async def holds(condition, what, seconds=30):
    """Wait until the condition's value is true; the condition may return an awaitable."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(0.05)
    raise DeadlineExceededError(f"{what}: not within {seconds} s")


@asynccontextmanager
async def producer(bootstrap, **settings):
    client = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def consumer(bootstrap, *topics, **settings):
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
    client = AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def admin(bootstrap):
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topic(bootstrap, topic, partitions=1, **configs):
    named = {name.replace("_", "."): str(value) for name, value in configs.items()}
    async with admin(bootstrap) as client:
        answer = await client.create_topics([NewTopic(topic, partitions, 1, topic_configs=named)])
        assert [error[1] for error in answer.topic_errors] == [0], answer

        async def visible():
            (described,) = await client.describe_topics([topic])
            return len(described["partitions"]) == partitions

        await holds(visible, "the topic")


async def send_all(client, topic, records, partition=0):
    """Send without waiting between records, so that batches form; return the metadata of each record."""
    futures = [
        await client.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    await client.flush()
    return await asyncio.gather(*futures)


async def read(client, count, seconds=30):
    """Read batches until `count` records arrived; return extra records too, so that the caller can detect them."""
    received = []

    async def enough():
        for batch in (await client.getmany(timeout_ms=200)).values():
            received.extend(batch)
        return len(received) >= count

    await holds(enough, f"{count} records", seconds)
    return received


async def read_from(bootstrap, topic, count, partition=0, offset=0, **settings):
    async with consumer(bootstrap, **settings) as client:
        where = TopicPartition(topic, partition)
        client.assign([where])
        client.seek(where, offset)
        return await read(client, count)


def as_record(received):
    return Record(
        value=received.value, key=received.key, headers=tuple(received.headers), timestamp_ms=received.timestamp
    )
