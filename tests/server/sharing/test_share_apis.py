"""ShareFetch and ShareAcknowledge over a socket: records are acquired, acknowledged, and delivered again."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server.sharing.members import ACCEPT, REJECT, RELEASE, RENEW, Member, configure_group
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.requests import batch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def write(member: Member, *values: bytes, partition: int = 0) -> None:
    assert produce(member.client, member.topic, batch(*values), partition=partition).error_code == 0


def test_records_are_acquired_and_accepted(member: Member, persister: MemoryPersister) -> None:
    write(member, b"a", b"b", b"c")
    assert member.take() == {0: [(0, 2, 1)]}
    assert member.settle(ACCEPT, 0, 2) == 0
    (state,) = persister.states.values()
    assert (state.start_offset, state.delivery_complete_count) == (0, 3)
    write(member, b"d")
    assert member.take() == {0: [(3, 3, 1)]}
    assert member.settle(ACCEPT, 3, 3) == 0
    assert state.start_offset == 3


def test_every_type_of_acknowledgement(member: Member) -> None:
    write(member, *[b"x"] * 6)
    assert member.take() == {0: [(0, 5, 1)]}
    answer = member.acknowledge({0: [(0, 4, [ACCEPT, RELEASE, REJECT, 0, RELEASE])]})
    assert answer.acquisition_lock_timeout_ms == 1000
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]
    assert member.take() == {0: [(1, 1, 2), (4, 4, 2)]}


def test_acknowledgements_in_a_fetch(member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    assert member.take(acks={0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]}) == {0: [(1, 1, 2)]}
    answer = member.fetch(acks={0: [(0, 0, [ACCEPT]), (1, 1, [ACCEPT]), (1, 1, [ACCEPT])]}, wait_ms=0)
    (data,) = answer.responses[0].partitions
    assert (data.acknowledge_error_code, data.records) == (ErrorCode.INVALID_RECORD_STATE, b"")
    answer = member.fetch(acks={0: [(0, 9, [ACCEPT])]}, wait_ms=0)
    (data,) = answer.responses[0].partitions
    assert (data.error_code, data.acknowledge_error_code) == (0, ErrorCode.INVALID_REQUEST)


def test_late_acknowledgements_do_not_apply_to_the_records_of_the_same_fetch(member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    time.sleep(1.2)  # the lock expires
    answer = member.fetch(acks={0: [(0, 1, [ACCEPT])]})
    (data,) = answer.responses[0].partitions
    assert data.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    assert [(it.first_offset, it.last_offset, it.delivery_count) for it in data.acquired_records] == [(0, 1, 2)]
    assert member.settle(ACCEPT, 0, 1) == 0


def test_a_rejected_acknowledgement_changes_nothing(member: Member, persister: MemoryPersister) -> None:
    write(member, b"a", b"b", b"c")
    assert member.take(records_max=2, mode=1) == {0: [(0, 1, 1)]}
    answer = member.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]})
    (data,) = answer.responses[0].partitions
    assert data.error_code == ErrorCode.INVALID_REQUEST
    assert data.error_message == "Batch record not found. The last offset in request is past acquired records."
    assert persister.writes == 0
    assert member.settle(ACCEPT, 0, 1) == 0


def test_a_lock_expires_and_wakes_a_waiting_fetch(broker: RunningBroker, member: Member) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    with broker.client() as second:
        began = time.monotonic()
        assert Member(second, member.group, member.topic_id, "m2").take() == {0: [(0, 0, 2)]}
        assert 0.5 < time.monotonic() - began < 4
    assert member.settle(ACCEPT, 0, 0) == ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_lock_lasts_longer(broker: RunningBroker, member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    with broker.client() as second:
        other = Member(second, member.group, member.topic_id, "m2")
        request = other.fetch_request()
        second.send(request, 2)
        for _ in range(3):
            time.sleep(0.4)
            assert member.settle(RENEW, 1, 1, is_renewal=True) == 0
        (data,) = second.receive(request, 2).responses[0].partitions
        assert [(it.first_offset, it.delivery_count) for it in data.acquired_records] == [(0, 2)]
        assert member.settle(ACCEPT, 1, 1) == 0


def test_renewals_are_checked(member: Member) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    assert member.settle(RENEW, 0, 0) == ErrorCode.INVALID_REQUEST, "the request does not say that it renews"
    assert member.settle(RENEW, 0, 0, version=1) == ErrorCode.INVALID_REQUEST
    assert member.fetch(is_renewal=True, acks={0: [(0, 0, [RENEW])]}).error_code == ErrorCode.INVALID_REQUEST
    none: dict[str, Any] = {"wait_ms": 0, "records_max": 0, "min_bytes": 0, "max_bytes": 0}
    answer = member.fetch(is_renewal=True, acks={0: [(0, 0, [RENEW])]}, **none)
    assert (answer.error_code, answer.responses[0].partitions[0].acknowledge_error_code) == (0, 0)
    configure_group(member.client, member.group, share_renew_acknowledge_enable="false")
    assert member.settle(RENEW, 0, 0, is_renewal=True) == ErrorCode.INVALID_RECORD_STATE


def test_a_record_is_archived_after_the_delivery_limit(member: Member, persister: MemoryPersister) -> None:
    configure_group(member.client, member.group, share_delivery_count_limit="3")
    write(member, b"a", b"b", b"c", b"d")
    seen = []
    for _ in range(3):
        taken = member.take()
        seen.append(taken[0])
        for first, last, _count in taken[0]:
            assert member.settle(RELEASE, first, last) == 0
    assert seen[:2] == [[(0, 3, 1)], [(0, 3, 2)]]
    assert seen[2] == [(0, 0, 3)], "the last delivery of a record contains only that record"
    for offset in (1, 2, 3):
        assert member.take() == {0: [(offset, offset, 3)]}
        assert member.settle(RELEASE, offset, offset) == 0
    assert member.take(wait_ms=0) == {}
    write(member, b"e")
    assert member.take() == {0: [(4, 4, 1)]}


def test_acquisition_by_batches_and_by_records(member: Member) -> None:
    for _ in range(3):
        write(member, *[b"x"] * 4)
    assert member.take(records_max=2) == {0: [(0, 3, 1)]}, "a whole batch"
    assert member.take(records_max=2, mode=1) == {0: [(4, 5, 1)]}
    assert member.take(batch_size=1) == {0: [(6, 7, 1), (8, 11, 1)]}, "ranges end with batches"


def test_only_the_batches_with_acquired_records_are_sent(member: Member) -> None:
    for value in (b"a", b"b", b"c"):
        write(member, value, value)
    assert member.take() == {0: [(0, 5, 1)]}
    assert member.settle(RELEASE, 2, 2) == 0
    answer = member.fetch()
    assert values_in(answer.responses[0].partitions[0].records) == [b"b", b"b"]


def test_no_more_than_the_maximum_of_locks(member: Member) -> None:
    configure_group(member.client, member.group, share_partition_max_record_locks="100")
    for _ in range(12):
        write(member, *[b"x"] * 10)
    assert member.take() == {0: [(0, 99, 1)]}
    assert member.take(wait_ms=50) == {}
    assert member.settle(ACCEPT, 1, 50) == 0
    assert member.take(wait_ms=50) == {}, "the first record is not done"
    assert member.settle(RELEASE, 60, 60) == 0
    assert member.take(wait_ms=50) == {0: [(60, 60, 2)]}
    assert member.settle(ACCEPT, 0, 0) == 0
    assert member.take() == {0: [(100, 119, 1)]}


def test_a_group_starts_at_the_latest_record(member: Member) -> None:
    configure_group(member.client, member.group, share_auto_offset_reset="latest")
    write(member, b"a")
    assert member.take(wait_ms=100) == {}
    write(member, b"b")
    assert member.take() == {0: [(1, 1, 1)]}


def test_a_group_starts_at_a_time(member: Member) -> None:
    configure_group(member.client, member.group, share_auto_offset_reset="by_duration:PT1H")
    now_ms = int(time.time() * 1000)
    for age_ms in (7_200_000, 60_000, 0):
        produce(member.client, member.topic, batch(b"x", timestamp=now_ms - age_ms))
    assert member.take() == {0: [(1, 2, 1)]}


def test_deleted_records_are_skipped(member: Member, persister: MemoryPersister) -> None:
    for _ in range(3):
        write(member, b"a", b"b")
    assert member.take(records_max=1) == {0: [(0, 1, 1)]}
    partition = DeleteRecordsPartition(partition_index=0, offset=3)
    topic = DeleteRecordsTopic(name=member.topic, partitions=[partition])
    answer = member.client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2)
    assert answer.topics[0].partitions[0].error_code == 0
    assert member.settle(ACCEPT, 0, 1) == 0
    assert member.take() == {0: [(3, 5, 1)]}
    assert member.settle(ACCEPT, 3, 5) == 0


def test_a_fetch_waits_for_enough_bytes(broker: RunningBroker, member: Member) -> None:
    request = member.fetch_request(min_bytes=150)
    with broker.client() as writer:
        member.client.send(request, 2)
        producer = Member(writer, "", member.topic_id, topic=member.topic)
        began = time.monotonic()
        write(producer, b"a")
        time.sleep(0.2)
        write(producer, b"b" * 100)
        (data,) = member.client.receive(request, 2).responses[0].partitions
        assert [(it.first_offset, it.last_offset) for it in data.acquired_records] == [(0, 1)]
        assert 0.2 <= time.monotonic() - began < 3


def test_a_fetch_answers_with_less_when_its_time_is_up(member: Member) -> None:
    write(member, b"a")
    began = time.monotonic()
    assert member.take(min_bytes=10_000, wait_ms=300) == {0: [(0, 0, 1)]}
    assert time.monotonic() - began >= 0.3


def test_a_fetch_of_no_bytes_does_not_wait(member: Member) -> None:
    member.take(wait_ms=50)
    began = time.monotonic()
    assert member.take(min_bytes=0, wait_ms=20_000) == {}
    assert time.monotonic() - began < 10


def test_the_first_response_of_a_session_names_each_partition_that_could_be_fetched(member: Member) -> None:
    """Kafka's clients do not need that, but its own tests wait for it."""
    write(member, b"a", partition=1)

    def named(**fields: Any) -> list[tuple[int, int, int]]:
        answer = member.fetch(**fields)
        found = [each for topic in answer.responses for each in topic.partitions]
        return sorted((each.partition_index, each.error_code, len(each.acquired_records)) for each in found)

    assert named(partitions=[0, 1, 2]) == [(0, 0, 0), (1, 0, 1), (2, 0, 0)]
    assert named(wait_ms=50) == []
    assert named(epoch=0, partitions=[0, 2], wait_ms=50) == [(0, 0, 0), (2, 0, 0)]


def test_all_partitions_are_read_in_turn(member: Member) -> None:
    for partition in range(3):
        for _ in range(4):
            write(member, b"x", partition=partition)
    seen = [member.take([0, 1, 2] if turn == 0 else None, records_max=1) for turn in range(3)]
    assert [sorted(each) for each in seen] == [[0], [1], [2]]
    assert member.take(forgotten=[0, 1]) == {2: [(1, 3, 1)]}
    assert member.take([0]) == {0: [(1, 3, 1)]}


def test_members_share_the_records(broker: RunningBroker, member: Member) -> None:
    for _ in range(30):
        write(member, *[b"x"] * 3)
    with broker.client() as one, broker.client() as two:
        members = [Member(each, member.group, member.topic_id, f"m{i}") for i, each in enumerate((one, two))]
        seen: list[int] = []
        while len(seen) < 90:
            for each in members:
                for first, last, count in each.take(records_max=7).get(0, []):
                    assert count == 1
                    seen += range(first, last + 1)
                    assert each.settle(ACCEPT, first, last) == 0
        assert sorted(seen) == list(range(90))


def test_a_member_that_disconnects_releases_its_records(broker: RunningBroker, member: Member) -> None:
    configure_group(member.client, member.group, share_record_lock_duration_ms="60000")
    write(member, b"a")
    with broker.client() as second:
        assert Member(second, member.group, member.topic_id, "m2").take() == {0: [(0, 0, 1)]}
    assert member.take() == {0: [(0, 0, 2)]}


def test_state_survives_the_loss_of_the_share_partition(broker: RunningBroker, member: Member) -> None:
    write(member, *[b"x"] * 5)
    assert member.take() == {0: [(0, 4, 1)]}
    assert member.acknowledge({0: [(0, 3, [RELEASE, ACCEPT, ACCEPT, RELEASE])]}).error_code == 0
    led = broker.server.services.share_partitions.get(member.group, (member.topic_id, 0))
    assert led is not None
    broker.call(partial(led.fail, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert member.settle(ACCEPT, 4, 4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.take() == {0: [(0, 0, 2), (3, 3, 2), (4, 4, 1)]}, "no state of the last record was stored"


def test_share_partitions_of_an_empty_group_are_dropped(broker: RunningBroker, member: Member) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    shares = broker.server.services.share_partitions
    assert broker.call(lambda: shares.get(member.group, (member.topic_id, 0))) is not None
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=-1).error_code == 0
    eventually(lambda: broker.call(lambda: shares.get(member.group, (member.topic_id, 0))) is None, "dropped")


def test_a_group_at_the_latest_record_skips_none_while_its_member_reconnects(
    broker: RunningBroker, member: Member
) -> None:
    configure_group(member.client, member.group, share_auto_offset_reset="latest")
    write(member, b"before")
    shares = broker.server.services.share_partitions
    with broker.client() as second:
        assert Member(second, member.group, member.topic_id, "m2").take(wait_ms=50) == {}
    eventually(lambda: broker.call(lambda: shares.get(member.group, (member.topic_id, 0))) is None, "dropped")
    write(member, b"meanwhile")
    assert member.take() == {0: [(1, 1, 1)]}


def test_an_acknowledgement_stores_an_expiration_that_could_not_be_stored(
    broker: RunningBroker, member: Member, persister: MemoryPersister
) -> None:
    configure_group(member.client, member.group, share_delivery_count_limit="2")
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    assert member.settle(RELEASE, 0, 0) == 0
    assert member.take() == {0: [(0, 0, 2)]}
    led = broker.server.services.share_partitions.get(member.group, (member.topic_id, 0))
    assert led is not None
    state = led.state
    assert state is not None
    persister.write_errors.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    eventually(lambda: broker.call(lambda: state.start_offset) == 1, "the record is archived, as its lock has expired")
    stored = persister.states[member.group, member.topic_id, 0]
    assert stored.start_offset == 0
    assert member.settle(RELEASE, 0, 0) == 0
    assert stored.start_offset == 1


def test_a_session_that_releases_nothing_stores_nothing(member: Member, persister: MemoryPersister) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    assert member.settle(ACCEPT, 0, 0) == 0
    (state,) = persister.states.values()
    assert (state.start_offset, persister.writes) == (0, 1)
    assert member.fetch([], epoch=-1, wait_ms=0).error_code == 0
    member.epoch = 0
    write(member, b"b")
    assert member.take() == {0: [(1, 1, 1)]}
    assert (state.start_offset, persister.writes) == (0, 1)


def test_a_deleted_topic(broker: RunningBroker, member: Member) -> None:
    request = member.fetch_request()
    member.client.send(request, 2)
    with broker.client() as other:
        time.sleep(0.2)
        topic = DeleteTopicState(name=member.topic)
        assert other.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=5000), 6).responses[0].error_code == 0
    (data,) = member.client.receive(request, 2).responses[0].partitions
    assert data.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    member.epoch += 1
    (data,) = member.fetch().responses[0].partitions
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_large_records_are_read_up_to_the_maximum_of_bytes(member: Member) -> None:
    for _ in range(5):
        write(member, b"x" * 300_000)
    assert member.take(max_bytes=1_000_000) == {0: [(0, 2, 1)]}
    assert member.take(max_bytes=1) == {0: [(3, 3, 1)]}, "at least one batch"
    answer = member.fetch(max_bytes=10_000_000)
    assert values_in(answer.responses[0].partitions[0].records) == [b"x" * 300_000]
