"""confluent-kafka 2.0.2 with the command language of OldClient.java. Runs in its own environment."""

import sys
import threading

from confluent_kafka import Consumer, Producer


def produce(bootstrap, topic, first, count, codec):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec})
    problems = []

    def delivered(error, message):
        if error is not None:
            problems.append(error)
        else:
            print("sent", message.partition(), message.offset())

    for number in range(int(first), int(first) + int(count)):
        producer.produce(topic, key=f"key-{number % 7}", value=f"value-{number}", on_delivery=delivered)
    left = producer.flush(20)
    sys.exit(f"{left} not sent, {problems}" if left or problems else 0)


def new_consumer(bootstrap, group):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6000,
            "check.crcs": True,
        }
    )


def consume(bootstrap, topic, group, count):
    consumer = new_consumer(bootstrap, group)
    consumer.subscribe([topic])
    seen = 0
    while seen < int(count):
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            print("got", message.partition(), message.offset(), message.key().decode(), message.value().decode())
            seen += 1
    consumer.commit(asynchronous=False)
    print("committed")
    consumer.close()


def member(bootstrap, topic, group):
    def assigned(_, partitions):
        print("assigned", ",".join(sorted(str(each.partition) for each in partitions)), flush=True)

    consumer = new_consumer(bootstrap, group)
    consumer.subscribe([topic], on_assign=assigned)
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    while reading.is_alive():
        consumer.poll(0.1)
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "consume": consume, "member": member}[sys.argv[1]](*sys.argv[2:])
