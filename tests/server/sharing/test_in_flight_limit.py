"""Limit of the records in flight in all share partitions of a broker."""

from __future__ import annotations

import pytest

from kwire.server.sharing import in_flight_limit
from kwire.server.sharing.acquiring import IN_FLIGHT_MAX
from kwire.server.sharing.in_flight_limit import InFlightLimit
from tests.server.sharing.members import ACCEPT, RELEASE, Member
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.requests import batch, produce
from tests.support.running import RunningBroker


def test_each_share_partition_has_an_equal_part_of_what_may_be_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_limit, "RECORDS_MAX", 10)
    limit = InFlightLimit()
    limit.change(0, 9)
    assert limit.records_max() == IN_FLIGHT_MAX
    limit.change(0, 1)
    assert limit.records_max() == 5
    for _ in range(20):
        limit.change(0, 1)
    assert limit.records_max() == 1, "each share partition makes progress"
    limit.change(9, 0)
    for _ in range(12):
        limit.change(1, 0)
    assert limit.records_max() == IN_FLIGHT_MAX


def write(member: Member, partition: int, count: int) -> None:
    values = [b"x"] * count
    assert produce(member.client, member.topic, batch(*values), partition=partition).error_code == 0


@pytest.mark.parametrize("mode", [0, 1])
def test_a_share_partition_above_its_part_gets_no_new_records(
    broker: RunningBroker, member: Member, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    limit = broker.server.services.share_partitions._in_flight_limit
    broker.call(lambda: monkeypatch.setattr(in_flight_limit, "RECORDS_MAX", limit._records + 10))
    assert broker.call(lambda: limit._partitions) == 0
    write(member, 0, 20)
    write(member, 1, 20)
    assert member.take([0], mode=mode) == {0: [(0, 19, 1)]}
    assert member.take([1], mode=mode) == {1: [(0, 9, 1)]}
    write(member, 0, 5)
    assert member.take(mode=mode, wait_ms=10) == {}
    assert member.settle(RELEASE, 0, 2) == 0
    assert member.take(mode=mode) == {0: [(0, 2, 2)]}, "records that are available again are acquired"
    assert member.settle(ACCEPT, 0, 19) == 0
    assert member.take(mode=mode)[0] == [(20, 24, 1)]


def test_share_partitions_that_are_dropped_count_no_more(
    broker: RunningBroker, member: Member, persister: MemoryPersister
) -> None:
    limit = broker.server.services.share_partitions._in_flight_limit
    write(member, 0, 3)
    assert member.take() == {0: [(0, 2, 1)]}
    assert broker.call(lambda: (limit._records, limit._partitions)) == (3, 1)
    led = broker.server.services.share_partitions.get(member.group, (member.topic_id, 0))
    assert led is not None
    broker.call(led.stop)
    assert broker.call(lambda: (limit._records, limit._partitions)) == (0, 0)
    assert persister.writes == 0
