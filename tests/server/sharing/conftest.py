"""Fixtures: a broker whose persister of share groups is in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.sharing.members import Member, configure_group
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, unique
from tests.support.running import RunningBroker

CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.max.share.sessions": "20",
    "group.share.max.size": "20",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


@pytest.fixture
def persister(broker: RunningBroker) -> MemoryPersister:
    memory = MemoryPersister()
    shares = broker.server.services.share_partitions
    broker.call(lambda: setattr(shares, "persister", memory))
    return memory


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        yield connected


@pytest.fixture
def member(client: RawClient, persister: MemoryPersister) -> Member:
    """Return a member of a new group that starts at the earliest record of a new topic with three partitions."""
    group = unique("group")
    configure_group(client, group, share_auto_offset_reset="earliest")
    name, topic_id = create_topic(client, 3)
    return Member(client, group, topic_id, topic=name)
