"""Unknown topics: requests create them automatically, or fail."""

import pytest
from aiokafka.errors import InvalidTopicError, KafkaError

from compat_tests.aiokafka_client.client import consumer, holds, producer, read, read_from, send_all
from compat_tests.harness.payloads import numbered


@pytest.mark.short
async def test_producing_to_an_unknown_topic_creates_it(bootstrap, topic):
    async with producer(bootstrap) as client:
        assert (await client.send_and_wait(topic, b"first")).offset == 0
        assert await client.partitions_for(topic) == {0}
    assert [each.value for each in await read_from(bootstrap, topic, 1)] == [b"first"]


async def test_subscribing_to_an_unknown_topic_creates_it(bootstrap, topic, group):
    async with consumer(bootstrap, topic, group_id=group, metadata_max_age_ms=200) as reader:
        await holds(lambda: len(reader.assignment()) == 1, "a share")
        async with producer(bootstrap) as client:
            await send_all(client, topic, numbered(3))
        assert [each.value for each in await read(reader, 3)] == [b"0", b"1", b"2"]


async def test_an_invalid_name_is_rejected(bootstrap):
    async with producer(bootstrap, request_timeout_ms=3000) as client:
        with pytest.raises((InvalidTopicError, KafkaError)):
            await client.send_and_wait("no/such", b"v")
