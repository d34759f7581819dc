"""Move records from one topic to another exactly once: `transactions.py BOOTSTRAP SOURCE TARGET`.

Each batch of records, and the consumer's new position, are one transaction. If the program is killed and run again, it
goes on where the last transaction ended, and a consumer with isolation_level=read_committed sees each record once.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

GROUP = "mover"


async def move(bootstrap: str, source: str, target: str) -> int:
    """Move what is in the source topic by now, and return the number of records."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="mover-1")
    await producer.start()
    await consumer.start()
    moved = 0
    try:
        while batches := await consumer.getmany(timeout_ms=3000, max_records=100):
            async with producer.transaction():
                positions: dict[TopicPartition, int] = {}
                for partition, records in batches.items():
                    for record in records:
                        await producer.send(target, record.value.upper(), key=record.key)
                        moved += 1
                    positions[partition] = records[-1].offset + 1
                await producer.send_offsets_to_transaction(positions, GROUP)
    finally:
        await consumer.stop()
        await producer.stop()
    return moved


if __name__ == "__main__":
    print(f"{asyncio.run(move(*sys.argv[1:4]))} records moved")
