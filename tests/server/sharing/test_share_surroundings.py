"""Share groups beside other parts of a broker: transactions, quotas, leadership, connections."""

from __future__ import annotations

import asyncio
import time

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.states import Acknowledgement
from tests.server.sharing.members import ACCEPT, RELEASE, Member, configure_group
from tests.server.sharing.memory_persister import MemoryPersister
from tests.server.test_transactions import ended, find, init, send
from tests.support.raw_client import RawClient
from tests.support.requests import batch, produce, unique, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def write(member: Member, *values: bytes) -> None:
    assert produce(member.client, member.topic, batch(*values)).error_code == 0


def share_partition(broker: RunningBroker, member: Member) -> LedSharePartition:
    found = broker.server.services.share_partitions.get(member.group, (member.topic_id, 0))
    assert found is not None
    return found


def two_transactions(member: Member) -> None:
    """Write an aborted transaction and a committed one, with records of no transaction around them."""
    client = member.client
    name = unique("transaction")
    find(client, name)
    producer = init(client, name)
    write(member, b"before")
    for sequence in range(2):
        assert send(client, producer, member.topic, b"aborted", sequence).error_code == 0
    producer = ended(client, producer, commit=False)
    assert send(client, producer, member.topic, b"committed").error_code == 0
    ended(client, producer, commit=True)
    write(member, b"after")


def test_read_committed(member: Member, persister: MemoryPersister) -> None:
    configure_group(member.client, member.group, share_isolation_level="read_committed")
    two_transactions(member)
    seen: list[bytes | None] = []
    ranges: list[tuple[int, int]] = []
    for _ in range(10):
        answer = member.fetch(wait_ms=100, records_max=1)
        for data in answer.responses[0].partitions if answer.responses else ():
            for it in data.acquired_records:
                ranges.append((it.first_offset, it.last_offset))
                seen += values_in(data.records)
                assert member.settle(ACCEPT, it.first_offset, it.last_offset) == 0
    assert ranges == [(0, 0), (3, 3), (4, 4), (5, 5), (6, 6)], "markers at 3 and 5 are acquired, as in Kafka"
    assert b"aborted" not in seen
    assert {b"before", b"committed", b"after"} <= set(seen)


def test_read_uncommitted(member: Member) -> None:
    two_transactions(member)
    assert member.take() == {0: [(0, 6, 1)]}


def test_a_lost_leadership_ends_the_wait(broker: RunningBroker, member: Member) -> None:
    request = member.fetch_request(wait_ms=20_000)
    member.client.send(request, 2)
    eventually(lambda: broker.server.services.share_partitions.get(member.group, (member.topic_id, 0)), "loaded")
    partition = broker.server.services.partitions.find(member.topic, 0)
    image = partition.image
    broker.call(lambda: partition.update(image, is_led=False))
    answer = member.client.receive(request, 2)
    (data,) = answer.responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == image.leader
    (end,) = answer.node_endpoints
    assert f"{end.host}:{end.port}" == broker.bootstrap_server
    member.epoch += 1
    (data,) = member.fetch().responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.call(lambda: partition.update(image, is_led=True))
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}


def test_a_client_that_disconnects_waits_no_more(broker: RunningBroker, member: Member) -> None:
    with broker.client() as second:
        other = Member(second, member.group, member.topic_id, "m2")
        second.send(other.fetch_request(wait_ms=60_000), 2)
        eventually(lambda: broker.server.services.share_partitions.sessions.get((member.group, "m2")), "opened")
        assert member.take(wait_ms=10) == {}
        led = share_partition(broker, member)
        eventually(lambda: broker.call(lambda: len(led.waiters)) == 1, "waits")
    eventually(lambda: broker.call(lambda: len(led.waiters)) == 0, "waits no more")
    assert broker.server.services.share_partitions.sessions.get((member.group, "m2")) is None
    assert broker.call(lambda: broker.server.services.output.reserved_bytes) == 0


def test_waiting_fetches_are_woken_one_after_another(broker: RunningBroker, member: Member) -> None:
    members = [Member(broker.client(), member.group, member.topic_id, f"w{number}") for number in range(5)]
    requests = [each.fetch_request(records_max=1, mode=1) for each in members]
    for each, request in zip(members, requests, strict=True):
        each.client.send(request, 2)
    assert member.take(wait_ms=10) == {}
    led = share_partition(broker, member)
    eventually(lambda: broker.call(lambda: len(led.waiters)) == 5, "they wait")
    write(member, *[b"x"] * 5)
    seen = []
    for each, request in zip(members, requests, strict=True):
        (data,) = each.client.receive(request, 2).responses[0].partitions
        seen += [(it.first_offset, it.last_offset) for it in data.acquired_records]
    for each in members:
        each.client.close()  # not earlier: its record would go to another one
    assert sorted(seen) == [(offset, offset) for offset in range(5)]


def quota(client: RawClient, name: str, value: float | None) -> None:
    entry = AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type="client-id", entity_name=name)],
        ops=[AlterClientQuotasOperation(key="consumer_byte_rate", value=value or 0.0, remove=value is None)],
    )
    assert client.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0


def test_a_fetch_quota_throttles_after_the_records(broker: RunningBroker, member: Member) -> None:
    write(member, b"x" * 9000)
    write(member, b"y" * 9000)
    quota(member.client, "limited", 1000.0)
    with broker.client(client_id="limited") as client:
        limited = Member(client, member.group, member.topic_id, "m2")
        assert limited.take(records_max=1) == {0: [(0, 0, 1)]}
        answer = limited.fetch(records_max=1)
        assert values_in(answer.responses[0].partitions[0].records) == [b"y" * 9000]
        assert answer.throttle_time_ms > 0
        began = time.monotonic()
        limited.fetch(wait_ms=0)
        assert time.monotonic() - began >= answer.throttle_time_ms / 1000 - 0.1
    quota(member.client, "limited", None)


def test_changes_are_written_together(broker: RunningBroker, member: Member, persister: MemoryPersister) -> None:
    write(member, *[b"x"] * 9)
    assert member.take() == {0: [(0, 8, 1)]}
    led = share_partition(broker, member)
    before = persister.writes

    def release_three() -> list[asyncio.Task[None]]:
        return [led.acknowledge("m1", [Acknowledgement(offset, offset, [RELEASE])]) for offset in (0, 4, 8)]

    releases = broker.call(release_three)
    eventually(lambda: all(each.done() for each in releases), "stored")
    assert persister.writes - before < 3
    assert member.take(records_max=9) == {0: [(0, 0, 2), (4, 4, 2), (8, 8, 2)]}
