"""Errors of ShareFetch and ShareAcknowledge: sessions, authorization, the persister, bad requests."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.share_partitions import SharePartitions
from tests.server.sharing.members import ACCEPT, RELEASE, Member
from tests.server.sharing.memory_persister import MemoryPersister
from tests.support.requests import batch, create_topic, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode


def write(member: Member, *values: bytes, partition: int = 0) -> None:
    assert produce(member.client, member.topic, batch(*values), partition=partition).error_code == 0


# --- requests


def test_a_cluster_without_share_groups(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as running, running.client() as client:
        key = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        assert client.ask(UpdateFeaturesRequest(feature_updates=[key]), 1).error_code == 0
        member = Member(client, "g", UUID(int=7))
        assert member.fetch().error_code == E.UNSUPPORTED_VERSION
        assert member.acknowledge({0: [(0, 0, [ACCEPT])]}).error_code == E.UNSUPPORTED_VERSION


def test_share_groups_that_are_disabled_end_their_sessions_and_waits(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as running, running.client() as client, running.client() as admin:
        shares = running.server.services.share_partitions
        running.call(lambda: setattr(shares, "persister", MemoryPersister()))
        name, topic_id = create_topic(client)
        waiting = Member(client, unique("group"), topic_id, topic=name)
        request = waiting.fetch_request([0], wait_ms=60_000)
        client.send(request, 2)
        eventually(lambda: running.call(lambda: any(led.waiters for led in leds_of(shares))), "the fetch waits")
        key = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        assert admin.ask(UpdateFeaturesRequest(feature_updates=[key]), 1).error_code == 0
        (data,) = client.receive(request, 2).responses[0].partitions
        assert data.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert running.call(lambda: (len(shares), len(shares.sessions))) == (0, 0)
        assert waiting.fetch().error_code == E.UNSUPPORTED_VERSION


def leds_of(shares: SharePartitions) -> list[LedSharePartition]:
    return [led for group in shares._groups.values() for led in group.values()]


@pytest.mark.parametrize(("group", "name"), [(None, "m"), ("g", ""), ("g", None), ("g", "m" * 37)])
def test_group_and_member_are_required(member: Member, group: str | None, name: str | None) -> None:
    member.group, member.name = group, name  # type: ignore[assignment]
    assert member.fetch().error_code == E.INVALID_REQUEST
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    "acks",
    [
        [(1, 0, [ACCEPT])],
        [(3, 4, [ACCEPT]), (2, 2, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [4])],
    ],
)
def test_bad_acknowledgements(member: Member, acks: list[tuple[int, int, list[int]]]) -> None:
    write(member, *[b"x"] * 6)
    assert member.take() == {0: [(0, 5, 1)]}
    answer = member.acknowledge({0: acks})
    assert answer.responses[0].partitions[0].error_code == E.INVALID_REQUEST
    assert (
        member.fetch(acks={0: acks}, wait_ms=0).responses[0].partitions[0].acknowledge_error_code == E.INVALID_REQUEST
    )
    assert member.settle(ACCEPT, 0, 5) == 0


def test_unknown_topics_and_partitions(member: Member) -> None:
    (data,) = member.fetch([7]).responses[0].partitions
    assert data.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert member.settle(ACCEPT, 0, 0, partition=7) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert member.settle(ACCEPT, 0, 0, partition=0) == E.UNKNOWN_TOPIC_OR_PARTITION, "it was never fetched"
    member.topic_id = UUID(int=77)
    (data,) = member.fetch([0], forgotten=[7]).responses[-1].partitions
    assert data.error_code == E.UNKNOWN_TOPIC_ID
    assert member.settle(ACCEPT, 0, 0) == E.UNKNOWN_TOPIC_ID


# --- sessions


def test_session_epochs(member: Member) -> None:
    assert member.fetch(epoch=1).error_code == E.SHARE_SESSION_NOT_FOUND
    assert member.fetch(epoch=-1).error_code == E.SHARE_SESSION_NOT_FOUND
    acks = {0: [(0, 0, [ACCEPT])]}
    assert member.acknowledge(acks, epoch=1).error_code == E.SHARE_SESSION_NOT_FOUND
    assert member.fetch(acks=acks).error_code == E.INVALID_REQUEST
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    for epoch in (2, 17, -2):
        assert member.fetch(epoch=epoch).error_code == E.INVALID_SHARE_SESSION_EPOCH
        assert member.acknowledge(acks, epoch=epoch).error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge(acks, epoch=0).error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member.settle(ACCEPT, 0, 0) == 0
    assert member.take(wait_ms=0) == {}
    assert member.fetch(epoch=-1).error_code == 0
    assert member.fetch().error_code == E.SHARE_SESSION_NOT_FOUND


def test_the_last_acknowledgement_closes_the_session(broker: RunningBroker, member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    answer = member.fetch(epoch=-1, acks={0: [(0, 0, [ACCEPT])]})
    assert (answer.error_code, answer.responses[0].partitions[0].acknowledge_error_code) == (0, 0)
    with broker.client() as second:
        assert Member(second, member.group, member.topic_id, "m2").take() == {0: [(1, 1, 2)]}


def test_a_new_session_replaces_the_old_one(member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take(records_max=1, mode=1) == {0: [(0, 0, 1)]}
    member.epoch = 0
    assert member.take() == {0: [(1, 1, 1)]}
    assert member.settle(ACCEPT, 0, 1) == 0, "the member still has the records of the old session"


def test_too_many_sessions(broker: RunningBroker, member: Member) -> None:
    sessions = [Member(member.client, member.group, member.topic_id, f"m{number}") for number in range(21)]
    codes = [each.fetch(wait_ms=0).error_code for each in sessions[:20]]
    assert set(codes) == {0}
    began = time.monotonic()
    assert sessions[20].fetch(wait_ms=200).error_code == E.SHARE_SESSION_LIMIT_REACHED
    assert time.monotonic() - began >= 0.199  # event loops may end a wait a millisecond early
    for each in sessions[:20]:
        assert each.fetch(epoch=-1).error_code == 0
    assert len(broker.server.services.share_partitions.sessions) == 0


# --- authorization


@dataclasses.dataclass
class Rejecting(Authorizer):
    """Authorizer that denies all operations on one resource type."""

    kind: ResourceType

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return resource is not self.kind


@pytest.fixture
def restored(broker: RunningBroker) -> Iterator[None]:
    allowing = broker.server.services.authorizer
    yield
    broker.authorize_by(allowing)


@pytest.mark.usefixtures("restored")
def test_authorization(broker: RunningBroker, member: Member) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    broker.authorize_by(Rejecting(ResourceType.TOPIC))
    assert member.fetch(wait_ms=0).responses[0].partitions[0].error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert member.settle(ACCEPT, 0, 0) == E.TOPIC_AUTHORIZATION_FAILED
    broker.authorize_by(Rejecting(ResourceType.GROUP))
    assert member.fetch().error_code == E.GROUP_AUTHORIZATION_FAILED
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}).error_code == E.GROUP_AUTHORIZATION_FAILED


# --- persister


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE),
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
        (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND),
        (E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER),
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION),
        (E.INVALID_REQUEST, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_state_that_cannot_be_read(member: Member, persister: MemoryPersister, error: E, code: E) -> None:
    write(member, b"a")
    persister.read_errors.append(error)
    answer = member.fetch(wait_ms=300)
    assert answer.responses[0].partitions[0].error_code == code
    assert bool(answer.node_endpoints) == (code == E.NOT_LEADER_OR_FOLLOWER)
    assert member.take() == {0: [(0, 0, 1)]}, "it is loaded again"


def test_a_stored_state_that_is_inconsistent(member: Member, persister: MemoryPersister) -> None:
    write(member, b"a")
    assert member.take() == {0: [(0, 0, 1)]}
    (state,) = persister.states.values()
    state.start_offset = 5
    state.records = {3: (2, 1)}
    assert member.fetch(epoch=-1).error_code == 0
    member.epoch = 0
    (data,) = member.fetch(wait_ms=300).responses[0].partitions
    assert data.error_code == E.UNKNOWN_SERVER_ERROR


def test_an_acknowledgement_that_is_not_stored_is_undone(member: Member, persister: MemoryPersister) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    persister.write_errors.append(E.COORDINATOR_NOT_AVAILABLE)
    assert member.settle(ACCEPT, 0, 0) == E.COORDINATOR_NOT_AVAILABLE
    assert member.settle(RELEASE, 0, 1) == 0
    assert member.take() == {0: [(0, 1, 2)]}


@pytest.mark.parametrize("error", [E.FENCED_STATE_EPOCH, E.FENCED_LEADER_EPOCH, E.GROUP_ID_NOT_FOUND])
def test_a_fenced_share_partition_is_loaded_again(member: Member, persister: MemoryPersister, error: E) -> None:
    write(member, b"a", b"b")
    assert member.take() == {0: [(0, 1, 1)]}
    persister.write_errors.append(error)
    answer = member.acknowledge({0: [(0, 0, [ACCEPT])]})
    (data,) = answer.responses[0].partitions
    is_moved = error is not E.GROUP_ID_NOT_FOUND
    assert data.error_code == (E.NOT_LEADER_OR_FOLLOWER if is_moved else error)
    assert [each.node_id for each in answer.node_endpoints] == ([data.current_leader.leader_id] if is_moved else [])
    assert member.take() == {0: [(0, 1, 1)]}, "nothing was stored"


def test_a_broken_invariant_costs_one_share_partition(broker: RunningBroker, member: Member) -> None:
    write(member, b"a", b"b")
    assert member.take(records_max=1, mode=1) == {0: [(0, 0, 1)]}
    led = broker.server.services.share_partitions.get(member.group, (member.topic_id, 0))
    assert led is not None
    assert led.state is not None
    led.state._in_flight.next_offset = 0
    assert member.fetch(wait_ms=100).error_code == 0
    assert member.settle(ACCEPT, 0, 0) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert member.take() == {0: [(0, 1, 1)]}
