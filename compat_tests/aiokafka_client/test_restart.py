"""Clients during a stop or crash of the broker: they continue, and no record is lost or duplicated."""

import asyncio

import pytest
from aiokafka import TopicPartition

from compat_tests.aiokafka_client.client import as_record, consumer, create_topic, producer, read, read_from, send_all
from compat_tests.harness.payloads import numbered

pytestmark = pytest.mark.restart


@pytest.mark.short
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
async def test_an_idempotent_producer_continues_over_a_restart(broker, topic, clean):
    await create_topic(broker.bootstrap, topic)
    records = numbered(600)
    async with producer(broker.bootstrap, enable_idempotence=True, max_batch_size=1000) as client:
        await send_all(client, topic, records[:200])
        sending = asyncio.create_task(send_all(client, topic, records[200:400]))
        await asyncio.to_thread(broker.restart, clean=clean)
        metadata = await sending + await send_all(client, topic, records[400:])
    assert [each.offset for each in metadata] == list(range(200, 600))
    received = await read_from(broker.bootstrap, topic, 600)
    assert [as_record(each) for each in received] == records


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
async def test_a_group_member_continues_over_a_restart(broker, topic, group, clean):
    await create_topic(broker.bootstrap, topic)
    quick = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
    async with producer(broker.bootstrap) as sender:
        await send_all(sender, topic, numbered(20))
        async with consumer(broker.bootstrap, topic, group_id=group, **quick) as reader:
            values = [each.value for each in await read(reader, 20)]
            await reader.commit()
            await asyncio.to_thread(broker.restart, clean=clean)
            await send_all(sender, topic, numbered(20, start=20))
            values += [each.value for each in await read(reader, 20, seconds=60)]
            await reader.commit()
            assert await reader.committed(TopicPartition(topic, 0)) == 40
    assert values == [b"%d" % number for number in range(40)]
