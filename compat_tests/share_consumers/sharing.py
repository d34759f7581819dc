"""Share consumers of confluent-kafka, and the setting of a group that lets it start at the first record."""

from contextlib import contextmanager

from confluent_kafka import ShareConsumer

from compat_tests.confluent_kafka_client.client import BACK_OFF, dotted
from compat_tests.harness.waiting import eventually
from tests.support.raw_client import RawClient
from tests.support.requests import group_configs

SECONDS = 60


def configure(bootstrap, group, **configs):
    """Set configurations of a group; without others it starts at the first record."""
    values = {"share.auto.offset.reset": "earliest"} | dotted(configs)
    with RawClient(bootstrap) as client:
        answer = client.ask(group_configs(group, values), 1)
    assert [each.error_code for each in answer.responses] == [0]


@contextmanager
def share_consumer(bootstrap, group, topic, **settings):
    client = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group} | BACK_OFF | dotted(settings))
    client.subscribe([topic])
    try:
        yield client
    finally:
        client.close()


def take(client, count, seconds=SECONDS, kind=None):
    """Poll until `count` records were delivered; return them, with extra ones.

    With explicit acknowledgements, `kind` returns how to acknowledge a record, which must be done before the next poll.
    """
    taken = []

    def enough():
        for message in client.poll(0.2):
            assert message.error() is None, message.error()
            if kind is not None:
                client.acknowledge(message, kind(message))
            taken.append(message)
        return len(taken) >= count

    eventually(enough, f"{count} deliveries", seconds)
    return taken
