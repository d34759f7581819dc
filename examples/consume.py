"""Read a topic from its beginning to its present end and count what is there: `consume.py BOOTSTRAP TOPIC`."""

import sys

from kafka import KafkaConsumer

bootstrap, topic = sys.argv[1:3]
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id="tour", auto_offset_reset="earliest", consumer_timeout_ms=3000
)
count = 0
for message in consumer:
    count += 1
    if count <= 3:
        print(f"partition {message.partition} offset {message.offset}: {message.value.decode()}")
print(f"{count} records in {topic}")
consumer.close()
