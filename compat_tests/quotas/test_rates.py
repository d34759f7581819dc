"""The same producer and consumer under the same quota, on kwire and on Apache Kafka at the same time.

Kafka lets a client send ten seconds' worth of bytes at once when it starts, and again each time that these leave the
window. A rate is therefore meaningful only over whole windows of eleven seconds. From the fifth second to the
sixteenth, each broker must be within 20 % of the quota, and kwire within 15 % of Kafka.
"""

import pytest

from compat_tests.harness.brokers import started_broker
from compat_tests.quotas.flows import VALUE, consume, produce, run_together
from compat_tests.quotas.quotas import quota
from compat_tests.raw.peer import Peer
from kwire.protocol.records import Record, encode_batch

RATE = 1_000_000
FROM_SECOND, TO_SECOND = 5.0, 16.0
PREFILLED_BYTES = 40_000_000


@pytest.fixture
def pair(broker, request, tmp_path):
    """Yield the broker under test and the other broker."""
    tested = request.config.getoption("--broker")
    if request.config.getoption("--bootstrap"):
        pytest.skip("compares kwire with Kafka, and has one broker only")
    other_name = {"kwire": "kafka", "kafka": "kwire"}[tested]
    with started_broker(other_name, tmp_path) as other:
        yield {tested: broker.bootstrap, other_name: other.bootstrap}


def prefill(bootstrap, topic):
    batch = bytes(
        encode_batch([Record(key=None, value=VALUE, timestamp=1_720_000_000_000 + index) for index in range(10)])
    )
    with Peer(bootstrap) as peer:
        peer.create_topic(topic)
        for _ in range(PREFILLED_BYTES // len(batch)):
            assert peer.produce(topic, batch, acks=1).error_code == 0


def test_both_brokers_throttle_clients_to_the_same_rate(pair, unique):
    names = sorted(pair)
    source, sink, producer, consumer = (unique(role) for role in ("source", "sink", "producer", "consumer"))
    for bootstrap in pair.values():
        prefill(bootstrap, source)
        with Peer(bootstrap) as peer:
            peer.create_topic(sink)
    with (
        quota(pair[names[0]], (("client-id", producer),), "producer_byte_rate", RATE),
        quota(pair[names[1]], (("client-id", producer),), "producer_byte_rate", RATE),
        quota(pair[names[0]], (("client-id", consumer),), "consumer_byte_rate", RATE),
        quota(pair[names[1]], (("client-id", consumer),), "consumer_byte_rate", RATE),
    ):
        flows = run_together(
            *((produce, pair[name], sink, producer, TO_SECOND) for name in names),
            *((consume, pair[name], source, consumer, TO_SECOND) for name in names),
        )
    rates = {}
    for (role, name), flow in zip(
        ((role, name) for role in ("produce", "consume") for name in names), flows, strict=True
    ):
        rates[role, name] = flow.rate(FROM_SECOND, TO_SECOND)
        assert flow.throttled_ms, f"the client on {name} was never throttled"
    print("bytes per second:", {" on ".join(key): round(rate) for key, rate in rates.items()})
    assert all(0.8 * RATE < rate < 1.2 * RATE for rate in rates.values()), rates
    for role in ("produce", "consume"):
        assert rates[role, "kwire"] == pytest.approx(rates[role, "kafka"], rel=0.15), rates
