"""Each pinned old client produces, consumes and joins a group, on kwire as on Apache Kafka."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.old_clients.clients import CLIENTS, wait_for_shares

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def values(printed):
    return sorted(int(line[4].removeprefix("value-")) for line in printed if line[0] == "got")


def test_an_old_client_consumes_what_it_produces(client, bootstrap, topic, group):
    create_topic(bootstrap, topic, partitions=2)
    total = 0
    for codec in client.codecs:
        sent = client.run("produce", bootstrap, topic, total, 20, codec)
        assert len(sent) == 20
        total += 20
    got = client.run("consume", bootstrap, topic, group, total)
    assert got[-1] == ["committed"]
    assert values(got) == list(range(total))
    for _, partition, _, key, value in got[:-1]:
        assert key == f"key-{int(value.removeprefix('value-')) % 7}", partition


def test_a_group_resumes_where_it_committed(client, bootstrap, topic, group):
    create_topic(bootstrap, topic, partitions=2)
    client.run("produce", bootstrap, topic, 0, 10, "none")
    assert values(client.run("consume", bootstrap, topic, group, 10)) == list(range(10))
    client.run("produce", bootstrap, topic, 10, 5, "none")
    assert values(client.run("consume", bootstrap, topic, group, 5)) == list(range(10, 15))


def test_members_share_and_take_over(client, bootstrap, topic, group, tmp_path):
    create_topic(bootstrap, topic, partitions=4)
    with client.member(tmp_path, bootstrap, topic, group) as first:
        wait_for_shares([first], [4])
        with client.member(tmp_path, bootstrap, topic, group) as second:
            wait_for_shares([first, second], [2, 2])
        wait_for_shares([first], [4])
