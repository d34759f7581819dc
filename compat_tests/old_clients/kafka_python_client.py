"""kafka-python 2.0.2 with the command language of OldClient.java. Runs in its own environment."""

import sys
import threading

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer


def produce(bootstrap, topic, first, count, codec):
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", compression_type=None if codec == "none" else codec
    )
    numbers = range(int(first), int(first) + int(count))
    for each in [producer.send(topic, key=b"key-%d" % (n % 7), value=b"value-%d" % n) for n in numbers]:
        sent = each.get(20)
        print("sent", sent.partition, sent.offset)
    producer.close()


def new_consumer(bootstrap, group):
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=6000,
    )


def consume(bootstrap, topic, group, count):
    consumer = new_consumer(bootstrap, group)
    consumer.subscribe([topic])
    seen = 0
    while seen < int(count):
        for records in consumer.poll(200).values():
            for record in records:
                print("got", record.partition, record.offset, record.key.decode(), record.value.decode())
                seen += 1
    consumer.commit()
    print("committed")
    consumer.close()


class Assigned(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        print("assigned", ",".join(sorted(str(each.partition) for each in assigned)), flush=True)


def member(bootstrap, topic, group):
    consumer = new_consumer(bootstrap, group)
    consumer.subscribe([topic], listener=Assigned())
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    while reading.is_alive():
        consumer.poll(100)
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "consume": consume, "member": member}[sys.argv[1]](*sys.argv[2:])
