"""Share sessions and their connections: what a client leaves when it disconnects."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.chunks import CHUNK
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.sharing import share_sessions
from tests.hostile.test_longest_steps import ELEMENT_LINES_MAX, longest_step
from tests.server.sharing.members import ACCEPT, Member, configure_group
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.loop_steps import needs_lines
from tests.support.requests import batch, create_topic, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

MANY = 1000
CYCLIC_OBJECTS_MAX = 500


def session_count(broker: RunningBroker) -> int:
    return broker.call(lambda: len(broker.server.services.share_partitions.sessions))


def test_all_sessions_of_a_connection_end_with_it(broker: RunningBroker, member: Member) -> None:
    before = session_count(broker)
    with broker.client() as other:
        for name in ("a", "b", "c"):
            assert Member(other, member.group, member.topic_id, name).fetch(wait_ms=0).error_code == 0
        taken_over = Member(member.client, member.group, member.topic_id, "c")
        assert taken_over.fetch(wait_ms=0).error_code == 0
        assert session_count(broker) == before + 3
    eventually(lambda: session_count(broker) == before + 1, "the sessions have ended")
    assert taken_over.fetch(wait_ms=0).error_code == 0
    assert taken_over.fetch([], epoch=-1, wait_ms=0).error_code == 0
    assert session_count(broker) == before


def test_a_session_that_was_opened_meanwhile_survives_the_late_end_of_the_one_before(
    broker: RunningBroker, member: Member, persister: MemoryPersister
) -> None:
    assert produce(member.client, member.topic, batch(b"a", b"b")).error_code == 0
    assert member.take(records_max=1, mode=1) == {0: [(0, 0, 1)]}
    blocked = persister.blocked = asyncio.Event()
    last = member.fetch_request(epoch=-1, acks={0: [(0, 0, [ACCEPT])]})
    member.client.send(last, 2)
    eventually(lambda: persister.is_writing, "the acknowledgement is being stored")
    with broker.client() as other:
        again = Member(other, member.group, member.topic_id, member.name)
        assert again.take() == {0: [(1, 1, 1)]}
        persister.blocked = None
        broker.call(blocked.set)
        assert member.client.receive(last, 2).error_code == 0
        assert again.settle(ACCEPT, 1, 1) == 0


def test_the_end_of_a_session_releases_no_records_of_the_next_one(
    broker: RunningBroker, persister: MemoryPersister
) -> None:
    last = CHUNK
    with broker.client() as client:
        name, topic_id = create_topic(client, last + 1)
        group = unique("group")
        configure_group(client, group, share_auto_offset_reset="earliest")
        assert produce(client, name, batch(b"a")).error_code == 0
        with broker.client() as lost:
            member = Member(lost, group, topic_id)
            assert member.take(list(range(last + 1)), records_max=1, mode=1) == {0: [(0, 0, 1)]}
            blocked = persister.blocked = asyncio.Event()
        assert produce(client, name, batch(b"a"), partition=last).error_code == 0
        eventually(lambda: persister.is_writing, "the release of the first partitions is being stored")
        again = Member(client, group, topic_id)
        assert again.take([last]) == {last: [(0, 0, 1)]}
        persister.blocked = None
        broker.call(blocked.set)
        other = Member(client, group, topic_id, "m2")
        assert other.take([0]) == {0: [(0, 0, 2)]}
        eventually(lambda: not broker.call(lambda: releases_of(broker)), "the old session has ended")
        assert again.settle(ACCEPT, 0, 0, last) == 0


def releases_of(broker: RunningBroker) -> int:
    return len(broker.server.services.share_partitions._tasks)


def test_a_session_that_is_not_replaced_stays_and_ends_with_its_connection(
    broker: RunningBroker, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "PARTITIONS_MAX", session_partitions(broker) + 2)
    shares = broker.server.services.share_partitions
    with broker.client() as other:
        second = Member(other, member.group, member.topic_id, "m2")
        assert second.fetch([0], wait_ms=0).error_code == 0
        assert second.fetch([0, 1, 2], epoch=0, wait_ms=0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert second.fetch([], wait_ms=0).error_code == 0
        assert second.fetch([1, 2], epoch=0, wait_ms=0).error_code == 0
        assert shares.get(member.group, (member.topic_id, 0)) is not None
    eventually(lambda: not broker.call(lambda: member.group in shares._groups), "its share partitions are dropped")


def session_partitions(broker: RunningBroker) -> int:
    return broker.call(lambda: broker.server.services.share_partitions.sessions._partition_count)


def test_no_session_is_opened_for_a_lost_connection(broker: RunningBroker, member: Member) -> None:
    shares = broker.server.services.share_partitions
    lost = cast("Any", SimpleNamespace(when_lost=None))
    with pytest.raises(KafkaError) as caught:
        broker.call(lambda: shares.open_session((member.group, "late"), [], lost))
    assert caught.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert shares.sessions.get((member.group, "late")) is None


def test_rejected_partitions_leave_no_reference_cycles(broker: RunningBroker, member: Member) -> None:
    unknown = list(range(3, 3 + MANY))
    gc.collect()
    gc.disable()
    try:
        answer = member.fetch(unknown, wait_ms=0)
        assert {each.error_code for each in answer.responses[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        answer = member.acknowledge({index: [(0, 0, [ACCEPT])] for index in (0, *unknown)})
        codes = [each.error_code for each in answer.responses[0].partitions]
        assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == MANY + 1
        broker.call(lambda: None)  # waits for the end of the loop turn that wrote the response
        assert gc.collect() < CYCLIC_OBJECTS_MAX
    finally:
        gc.enable()


@needs_lines
@pytest.mark.long
def test_a_step_of_a_fetch_does_not_grow_with_the_partitions_of_its_session(
    broker: RunningBroker, persister: MemoryPersister
) -> None:
    with broker.client() as client:
        _, topic_id = create_topic(client, MANY)
        member = Member(client, unique("group"), topic_id)
        assert member.fetch(list(range(MANY)), wait_ms=1000).error_code == 0
        request = member.fetch_request([], wait_ms=0)
        lines, culprits = longest_step(broker, request, 2, limit=ELEMENT_LINES_MAX)
        assert lines < ELEMENT_LINES_MAX, culprits
        member.epoch += 1
        request = member.fetch_request([], epoch=-1)
        lines, culprits = longest_step(broker, request, 2, limit=ELEMENT_LINES_MAX)
        assert lines < ELEMENT_LINES_MAX, culprits
