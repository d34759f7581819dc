"""Transactions: committed records are read once and in order, aborted ones never; fencing, timeouts, kills."""

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from compat_tests.aiokafka_client.client import consumer, create_topic, holds, producer, read, read_from, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.harness.transactions import PARTITIONS, alternating, count, expected, places_of

READ_COMMITTED = {"isolation_level": "read_committed"}


async def run(client, transaction):
    """Run one transaction of a plan and commit or abort it."""
    await client.begin_transaction()
    for (topic, partition), value in transaction.records:
        await client.send(topic, value, partition=partition)
    await client.flush()
    await (client.commit_transaction() if transaction.commits else client.abort_transaction())


async def read_places(bootstrap, places, number, isolation="read_committed"):
    """Read each partition until `number` values arrived; return the values by partition."""
    async with consumer(bootstrap, isolation_level=isolation) as client:
        client.assign([TopicPartition(*place) for place in places])
        await client.seek_to_beginning()
        values = {}
        for record in await read(client, number):
            values.setdefault((record.topic, record.partition), []).append(record.value)
        return values


@pytest.mark.short
async def test_committed_transactions_are_read_in_order_and_aborted_ones_never(bootstrap, unique):
    topics = [unique("one"), unique("two")]
    for topic in topics:
        await create_topic(bootstrap, topic, partitions=PARTITIONS)
    plan = alternating(places_of(*topics), 12)
    async with producer(bootstrap, transactional_id=unique("id")) as client:
        for transaction in plan:
            await run(client, transaction)
    committed, everything = expected(plan), expected(plan, committed_only=False)
    assert await read_places(bootstrap, places_of(*topics), count(committed)) == committed
    assert await read_places(bootstrap, places_of(*topics), count(everything), "read_uncommitted") == everything


async def test_a_block_that_raises_aborts_and_one_that_does_not_commits(bootstrap, topic, unique):
    await create_topic(bootstrap, topic)
    async with producer(bootstrap, transactional_id=unique("id")) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.transaction():
                await client.send_and_wait(topic, b"aborted", partition=0)
                raise ZeroDivisionError
        async with client.transaction():
            pass
        async with client.transaction():
            await client.send_and_wait(topic, b"committed", partition=0)
    (received,) = await read_from(bootstrap, topic, 1, **READ_COMMITTED)
    assert (received.offset, received.value) == (2, b"committed")


@pytest.mark.parametrize("codec", [None, "gzip"])
async def test_one_transaction_of_many_batches(bootstrap, topic, unique, codec):
    await create_topic(bootstrap, topic)
    settings = {"max_batch_size": 300, "compression_type": codec}
    async with producer(bootstrap, transactional_id=unique("id"), **settings) as client, client.transaction():
        metadata = await send_all(client, topic, numbered(500))
    assert [each.offset for each in metadata] == list(range(500))
    received = await read_from(bootstrap, topic, 500, **READ_COMMITTED)
    assert [each.value for each in received] == [each.value for each in numbered(500)]


@pytest.mark.short
async def test_an_open_transaction_hides_later_records_from_read_committed(bootstrap, topic, unique):
    await create_topic(bootstrap, topic)
    async with (
        producer(bootstrap) as plain,
        producer(bootstrap, transactional_id=unique("id")) as client,
        consumer(bootstrap, topic, **READ_COMMITTED) as reader,
    ):
        await send_all(plain, topic, numbered(3))
        await client.begin_transaction()
        await send_all(client, topic, numbered(2, start=3))
        await send_all(plain, topic, numbered(2, start=5))
        assert [each.value for each in await read(reader, 3)] == [b"0", b"1", b"2"]
        where = TopicPartition(topic, 0)
        assert await reader.end_offsets([where]) == {where: 3}
        assert await reader.getmany(timeout_ms=1000) == {}
        await client.commit_transaction()
        assert [each.value for each in await read(reader, 4)] == [b"3", b"4", b"5", b"6"]
        assert await reader.end_offsets([where]) == {where: 8}


@pytest.mark.short
async def test_a_second_producer_fences_the_first(bootstrap, topic, unique):
    await create_topic(bootstrap, topic)
    async with producer(bootstrap, transactional_id=unique("id")) as first:
        await first.begin_transaction()
        await first.send_and_wait(topic, b"of the first", partition=0)
        async with producer(bootstrap, transactional_id=unique("id")) as second:
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
            async with second.transaction():
                await second.send_and_wait(topic, b"of the second", partition=0)
    received = await read_from(bootstrap, topic, 1, **READ_COMMITTED)
    assert [each.value for each in received] == [b"of the second"]


async def test_a_transaction_over_its_time_is_aborted(bootstrap, topic, unique):
    await create_topic(bootstrap, topic)
    settings = {"transactional_id": unique("id"), "transaction_timeout_ms": 1000}
    async with producer(bootstrap) as plain, producer(bootstrap, **settings) as client:
        await client.begin_transaction()
        await client.send_and_wait(topic, b"too late", partition=0)
        await send_all(plain, topic, numbered(1))
        (received,) = await read_from(bootstrap, topic, 1, **READ_COMMITTED)
        assert (received.offset, received.value) == (1, b"0")
        with pytest.raises(ProducerFenced):
            await client.commit_transaction()


@pytest.mark.short
async def test_consume_transform_produce_moves_each_record_once(bootstrap, unique):
    source, target, group = unique("source"), unique("target"), unique("group")
    for topic in (source, target):
        await create_topic(bootstrap, topic, partitions=PARTITIONS)
    async with producer(bootstrap) as plain:
        for partition in range(PARTITIONS):
            await send_all(plain, source, numbered(40), partition=partition)
    async with (
        producer(bootstrap, transactional_id=unique("id")) as client,
        consumer(bootstrap, source, group_id=group, max_poll_records=17, **READ_COMMITTED) as reader,
    ):
        moved, commits = 0, False
        while moved < 40 * PARTITIONS:
            records = await read(reader, 1)
            await move(client, reader, records, target, group, commits=commits)
            moved += len(records) if commits else 0
            commits = not commits

        async def all_committed():
            # The commit response comes before the markers are written, and aiokafka does not request stable offsets.
            return [await reader.committed(where) for where in reader.assignment()] == [40] * PARTITIONS

        await holds(all_committed, "the committed offsets")
    values = await read_places(bootstrap, places_of(target), 40 * PARTITIONS)
    assert values == {place: [each.value for each in numbered(40)] for place in places_of(target)}


async def move(client, reader, records, target, group, *, commits):
    """Write the records and commit their offsets in a transaction; after an abort, seek to the committed offsets."""
    await client.begin_transaction()
    next_offsets = {}
    for each in records:
        await client.send(target, each.value, partition=each.partition)
        next_offsets[TopicPartition(each.topic, each.partition)] = each.offset + 1
    await client.send_offsets_to_transaction(next_offsets, group)
    if commits:
        await client.commit_transaction()
        return
    await client.abort_transaction()
    for where in next_offsets:
        reader.seek(where, await reader.committed(where) or 0)


@pytest.mark.restart
async def test_transactions_continue_over_a_kill(broker, topic, unique):
    await create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    async with producer(broker.bootstrap, transactional_id=unique("id"), retry_backoff_ms=100) as client:
        for number in range(60):
            if number == 20:
                killing = asyncio.create_task(asyncio.to_thread(broker.restart, clean=False))
            await persist(client, topic, b"%d" % number)
        await killing
    values = await read_places(broker.bootstrap, places_of(topic), 60 * PARTITIONS)
    assert values == {place: [b"%d" % number for number in range(60)] for place in places_of(topic)}


async def persist(client, topic, value):
    """Repeat one transaction, with an abort after each failed send, until all sends succeed; then commit it once."""
    while True:
        await client.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                await client.send_and_wait(topic, value, partition=partition)
        except KafkaError:
            await client.abort_transaction()
            continue
        return await client.commit_transaction()


@pytest.mark.restart
@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_an_open_transaction_survives_a_kill(broker, topic, unique, end):
    await create_topic(broker.bootstrap, topic)
    async with producer(broker.bootstrap, transactional_id=unique("id")) as client:
        await client.begin_transaction()
        await send_all(client, topic, numbered(5))
        await asyncio.to_thread(broker.restart, clean=False)
        await send_all(client, topic, numbered(5, start=5))
        await (client.commit_transaction() if end == "commit" else client.abort_transaction())
    async with producer(broker.bootstrap) as plain:
        await send_all(plain, topic, numbered(1, start=10))
    kept = [each.value for each in numbered(11)] if end == "commit" else [b"10"]
    received = await read_from(broker.bootstrap, topic, len(kept), **READ_COMMITTED)
    assert [each.value for each in received] == kept
