"""Send records with keys to a topic, and print where each one is stored: `produce.py BOOTSTRAP TOPIC [COUNT]`."""

import sys

from kafka import KafkaProducer

bootstrap, topic = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 10

producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
sent = [producer.send(topic, key=b"customer-%d" % (number % 3), value=b"order %d" % number) for number in range(count)]
producer.flush()
for each in sent[:3]:
    stored = each.get(timeout=10)
    print(f"partition {stored.partition} offset {stored.offset}")
print(f"{count} records in {topic}")
producer.close()
