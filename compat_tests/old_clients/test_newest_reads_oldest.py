"""Old and new clients in one topic and one group: each reads the other's records and continues from its offsets."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.old_clients.clients import CLIENTS
from compat_tests.old_clients.test_old_clients import values

OLD, NEW, PYTHON, LIBRDKAFKA = (CLIENTS[0], CLIENTS[3], CLIENTS[4], CLIENTS[5])


@pytest.mark.parametrize(
    ("writer", "reader"),
    [(OLD, NEW), (NEW, OLD), (PYTHON, LIBRDKAFKA), (LIBRDKAFKA, PYTHON)],
    ids=lambda client: client.name,
)
def test_a_group_continues_with_a_client_of_another_version(writer, reader, bootstrap, topic, group):
    create_topic(bootstrap, topic)
    writer.run("produce", bootstrap, topic, 0, 10, "gzip")
    assert values(reader.run("consume", bootstrap, topic, group, 10)) == list(range(10))
    reader.run("produce", bootstrap, topic, 10, 10, "lz4")
    assert values(writer.run("consume", bootstrap, topic, group, 10)) == list(range(10, 20))
