"""Share partitions whose state the share coordinator stores, over a restart of the broker."""

from __future__ import annotations

from pathlib import Path

from kwire.protocol.error_codes import ErrorCode
from kwire.server.sharing.acquiring import IN_FLIGHT_MAX
from tests.server.sharing.conftest import CONFIG
from tests.server.sharing.members import ACCEPT, RELEASE, Member, configure_group
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker

STORED = {
    **CONFIG,
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def test_the_state_survives_a_restart(data_dir: Path) -> None:
    with RunningBroker(data_dir, STORED) as broker, broker.client() as client:
        configure_group(client, "g", share_auto_offset_reset="earliest")
        name, topic_id = create_topic(client)
        produce(client, name, batch(*[b"x"] * 6))
        member = Member(client, "g", topic_id)
        (data,) = member.fetch().responses[0].partitions
        assert data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator has not initialised the state"
        states = broker.server.services.share_persister
        broker.start(states.initialize_state("g", topic_id, 0, 1, -1)).result(30)
        assert member.take() == {0: [(0, 5, 1)]}
        assert member.settle(ACCEPT, 0, 1) == 0
        assert member.settle(RELEASE, 3, 3) == 0
        assert member.settle(ACCEPT, 4, 5) == 0
    with RunningBroker(data_dir, STORED) as broker, broker.client() as client:
        member = Member(client, "g", topic_id)
        ranges = member.take()[0]  # the first one was released when the connection ended, if there was time
        assert ranges in ([(2, 2, 1), (3, 3, 2)], [(2, 3, 2)])
        assert member.settle(ACCEPT, 2, 3) == 0
        produce(client, name, batch(b"y"))
        assert member.take() == {0: [(6, 6, 1)]}
        summary = broker.start(broker.server.services.share_persister.read_summary("g", topic_id, 0, -1)).result(30)
        assert summary.state_epoch == 1


def test_a_batch_larger_than_the_limit_of_state_batches_is_acknowledged_in_any_pattern(data_dir: Path) -> None:
    count = 2 * IN_FLIGHT_MAX + 10
    half = [RELEASE, ACCEPT] * (IN_FLIGHT_MAX // 2)
    with RunningBroker(data_dir, STORED) as broker, broker.client() as client:
        configure_group(client, "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms="30000")
        name, topic_id = create_topic(client)
        produce(client, name, batch(*[b"x"] * count))
        states = broker.server.services.share_persister
        for group in ("g", "h"):
            broker.start(states.initialize_state(group, topic_id, 0, 1, 0)).result(30)
        member = Member(client, "g", topic_id)
        for first in range(0, count, IN_FLIGHT_MAX):
            last = min(first + IN_FLIGHT_MAX, count) - 1
            assert member.take() == {0: [(first, last, 1)]}
            assert member.settle(ACCEPT, first, last) == 0
        member = Member(client, "h", topic_id)
        assert member.take() == {0: [(0, IN_FLIGHT_MAX - 1, 1)]}
        answer = member.acknowledge({0: [(0, IN_FLIGHT_MAX - 1, half)]})
        assert [each.error_code for each in answer.responses[0].partitions] == [0]
        assert member.take()[0][:3] == [(0, 0, 2), (2, 2, 2), (4, 4, 2)]
        summary = broker.start(states.read_summary("h", topic_id, 0, -1)).result(30)
        assert summary.delivery_complete_count == IN_FLIGHT_MAX // 2
