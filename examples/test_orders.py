"""A test with a real broker: `pytest examples/test_orders.py`. It needs kafka-python, and neither Docker nor Java."""

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer

import kwire


@pytest.fixture(scope="session")
def bootstrap_server() -> Iterator[str]:
    """Broker for all tests; each test uses topics of its own."""
    with kwire.Broker({"num.partitions": 3}) as broker:
        yield broker.bootstrap_server


def test_orders_of_one_customer_stay_in_order(bootstrap_server: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_server)
    for number in range(5):
        producer.send("orders", key=b"alice", value=b"%d" % number)
    producer.close()

    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_server,
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=5000,
    )
    found = [next(consumer).value for _ in range(5)]
    consumer.close()
    assert found == [b"0", b"1", b"2", b"3", b"4"]
