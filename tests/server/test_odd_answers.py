"""Parts of a broker with unusual responses: from the active controller, from their disk, or none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import MetadataImage, PartitionImage
from kwire.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kwire.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kwire.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from kwire.protocol.messages.broker_registration import BrokerRegistrationRequest
from kwire.protocol.messages.controller_registration import ControllerRegistrationResponse
from kwire.server.assembly.broker_registrar import BrokerRegistrar
from kwire.server.assembly.controller_registration import ControllerRegistration
from kwire.server.assembly.coordinators import Coordinators
from kwire.server.network.outgoing.node_connection import NodeConnection
from kwire.server.node.background import Background
from kwire.server.node.quorum_settings import reject_other_voters
from kwire.server.other_nodes.active_controller import NoActiveControllerError
from kwire.server.other_nodes.internal_topics import REQUESTED_TOPICS_MAX, TopicCreator
from kwire.server.replication.directory_assignments import DirectoryAssignments
from kwire.server.replication.in_sync_changes import InSyncChanges
from kwire.server.replication.lost_replicas import LostReplicas
from kwire.server.replication.reported_directories import ReportedDirectories
from kwire.server.requests.current_leaders import current_leader
from kwire.server.settings.config import SettingError, make_config
from tests.virtual_loop import VirtualLoop, virtual_loop

E = ErrorCode
TOPIC_ID = UUID(int=7)
HERE, THERE = UUID(int=11), UUID(int=12)


class Asked:
    """Active controller that returns or raises what the test says."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    send_until_answered = send


def play(act: Callable[[VirtualLoop], Awaitable[None]]) -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            await act(loop)

        loop.run_until_complete(main())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def replica(directory: str = "/here/t-0", *, said: UUID = HERE) -> Any:
    image = PartitionImage(replicas=(1,), directories=(said,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    health = SimpleNamespace(lacks_space=False, space_found=lambda: None)
    log = SimpleNamespace(directory=directory, failure=None, health=health)
    return SimpleNamespace(topic="t", topic_id=TOPIC_ID, index=0, image=image, log=log, is_removed=False)


# --- replica directories


def assignments(*answers: Any) -> tuple[DirectoryAssignments, Asked]:
    asked = Asked(*answers)
    known = DirectoryAssignments(
        broker_id=1,
        broker_epoch=lambda: 5,
        directory_ids={"/here": HERE, "/there": THERE},
        active_controller=cast("Any", asked),
    )
    return known, asked


def test_a_directory_assignment_is_resent_until_the_controller_accepts_it(caplog: pytest.LogCaptureFixture) -> None:
    async def act(loop: VirtualLoop) -> None:
        rejected = AssignReplicasToDirsResponse(error_code=E.STALE_BROKER_EPOCH)
        known, asked = assignments(KafkaError(E.REQUEST_TIMED_OUT), rejected, AssignReplicasToDirsResponse())
        running = loop.create_task(known.run())
        known.report(replica("/there/t-0"))
        await asyncio.sleep(60)
        assert [request.directories[0].id for request in asked.requests] == [THERE] * 3
        assert "cannot report log directories to the controller" in caplog.text
        assert "the controller rejected log directories: STALE_BROKER_EPOCH" in caplog.text
        running.cancel()

    play(act)


def test_a_promotion_to_where_the_controller_has_the_replica_already_needs_no_wait() -> None:
    async def act(loop: VirtualLoop) -> None:
        known, asked = assignments(AssignReplicasToDirsResponse())
        awaited = known.begin_promotion(replica("/here/t-0", said=THERE), "/there")
        assert awaited.done()
        assert asked.requests == []

    play(act)


def test_a_lost_replica_is_not_reported_again_after_a_metadata_change() -> None:
    async def act(loop: VirtualLoop) -> None:
        known, asked = assignments(AssignReplicasToDirsResponse())
        running = loop.create_task(known.run())
        partition = replica()
        known.lose((TOPIC_ID, 0), partition.image)
        await settle()
        expected = len(asked.requests)
        known.check(partition)
        await settle()
        assert len(asked.requests) == expected
        known.report(partition)
        await settle()
        assert len(asked.requests) == expected + 1, "its log is open again"
        running.cancel()

    play(act)


# --- in-sync sets


class Proposal(SimpleNamespace):
    """In-sync set that a leader proposes."""


def in_sync_changes(*answers: Any) -> tuple[InSyncChanges, Asked, Any]:
    asked = Asked(*answers)
    changes = InSyncChanges(broker_id=1, broker_epoch=lambda: 5, active_controller=cast("Any", asked))
    partition = replica()
    proposal = Proposal(isr=(1, 2), broker_epochs=(5, 6), leader_epoch=0, partition_epoch=3)
    partition.followers = SimpleNamespace(
        proposal=proposal, rejected=lambda _: setattr(partition.followers, "proposal", None)
    )
    return changes, asked, partition


def test_an_isr_change_is_retried_while_the_controller_rejects_it() -> None:
    async def act(loop: VirtualLoop) -> None:
        decided = AlterPartitionResponsePartitionData(partition_index=0, partition_epoch=3)
        done = AlterPartitionResponse(topics=[AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[decided])])
        changes, asked, partition = in_sync_changes(AlterPartitionResponse(error_code=E.STALE_BROKER_EPOCH), done)
        running = loop.create_task(changes.run())
        changes.add(partition)
        await asyncio.sleep(10)
        assert len(asked.requests) == 2
        assert partition.followers.proposal is None, "nothing has changed: it was so already"
        running.cancel()

    play(act)


# --- disks


def lost_replicas(disk: Any) -> LostReplicas:
    lost = LostReplicas.__new__(LostReplicas)
    lost._disk = disk
    lost._full = {}
    lost._woken = asyncio.Event()
    return lost


def test_a_disk_with_unknown_free_space_counts_as_full(caplog: pytest.LogCaptureFixture) -> None:
    def space(path: str) -> tuple[int, int]:
        raise DiskFailure("statvfs", path, OSError(5, "Input/output error"))

    async def act(loop: VirtualLoop) -> None:
        lost = lost_replicas(SimpleNamespace(space=space))
        full, offline = replica(), replica()
        offline.log.failure = DiskFailure("fsync", "x", OSError(5, "Input/output error"))
        offline.index = 1
        lost._full = {(TOPIC_ID, each.index): each for each in (full, offline)}
        lost._take_back()
        assert list(lost._full.values()) == [full], "what is offline is waited for no more"
        assert "statvfs of /here/t-0 failed" in caplog.text

    play(act)


def test_a_removed_replica_is_not_reported_as_lost() -> None:
    async def act(loop: VirtualLoop) -> None:
        lost = lost_replicas(None)
        partition = replica()
        partition.is_removed = True
        lost._in_trouble(partition)
        assert lost._full == {}

    play(act)


# --- other responses


def test_a_controller_whose_registration_fails_logs_the_reason_and_retries(caplog: pytest.LogCaptureFixture) -> None:
    async def act(loop: VirtualLoop) -> None:
        asked = Asked(ControllerRegistrationResponse(error_code=E.UNSUPPORTED_VERSION))
        registration = ControllerRegistration(
            node_id=3,
            incarnation_id=UUID(int=1),
            endpoints=(),
            security_protocols={},
            metadata_log=cast("Any", SimpleNamespace(image=MetadataImage())),
            active_controller=cast("Any", asked),
        )
        running = loop.create_task(registration.run())
        await asyncio.sleep(30)
        assert len(asked.requests) > 1
        assert "cannot register the controller: UNSUPPORTED_VERSION" in caplog.text
        running.cancel()

    play(act)


def test_a_rejected_producer_id_allocation_is_retriable_for_clients() -> None:
    async def act(loop: VirtualLoop) -> None:
        coordinators = Coordinators.__new__(Coordinators)
        coordinators._node = cast("Any", SimpleNamespace(config=SimpleNamespace(node_id=1)))
        coordinators._broker_epoch = lambda: 5
        rejected = AllocateProducerIdsResponse(error_code=E.STALE_BROKER_EPOCH)
        given = AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=10)
        coordinators._active_controller = cast("Any", Asked(rejected, given))
        with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH") as raised:
            await coordinators._allocate_producer_ids()
        assert raised.value.code is E.COORDINATOR_NOT_AVAILABLE
        assert await coordinators._allocate_producer_ids() == range(1000, 1010)

    play(act)


@pytest.mark.parametrize(
    ("level", "expected"), [(METADATA_VERSION_4_3_IV0 - 1, None), (METADATA_VERSION_4_3_IV0, [HERE])]
)
def test_cordoned_directories_are_sent_to_controllers_that_support_them(
    level: int, expected: list[UUID] | None
) -> None:
    directories = [SimpleNamespace(path=path, is_cordoned=False) for path in ("/here", "/there")]
    config = make_config({"log.dirs": "/here,/there", "cordoned.log.dirs": "/here"})
    reported = ReportedDirectories(
        config=config,
        settings=CurrentSettings(config.parsed),
        directories=cast("Any", directories),
        directory_ids={"/here": HERE, "/there": THERE},
    )
    assert reported.cordoned(MetadataImage(features={METADATA_VERSION: level})) == expected


def test_a_broker_that_no_controller_registers_in_time_does_not_start() -> None:
    async def act(loop: VirtualLoop) -> None:
        registrar = BrokerRegistrar.__new__(BrokerRegistrar)
        registrar._active_controller = cast("Any", Asked(NoActiveControllerError("node 3 does not answer")))
        request = BrokerRegistrationRequest()
        assert await registrar._try_to_register(request, is_last=False) is None
        with pytest.raises(SettingError, match="no controller has registered this broker: node 3 does not answer"):
            await registrar._try_to_register(request, is_last=True)

    play(act)


def test_a_connection_that_was_never_opened_may_be_closed() -> None:
    async def act(loop: VirtualLoop) -> None:
        connection = NodeConnection(client_id="test", software_version="1")
        waiting = connection.send(BrokerRegistrationRequest())
        connection.close(ConnectionResetError("this node is stopping"))
        with pytest.raises(ConnectionResetError):
            await waiting

    play(act)


def test_an_unknown_partition_has_no_current_leader() -> None:
    context = cast("Any", SimpleNamespace(services=SimpleNamespace(image=MetadataImage())))
    assert current_leader("t", 0, context) is None


def test_an_event_loop_warning_does_not_stop_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        background = Background("broker")
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "an odd thing"})
        loop.call_exception_handler({"message": "a failed timer", "exception": ValueError("x")})
        assert not background.failed.done()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "an odd thing" in caplog.text


@pytest.mark.parametrize(
    ("voters", "why"),
    [((), "the metadata log has no voters"), ((1, 2), "are the nodes 1, 2"), ((9,), "are the nodes 9")],
)
def test_a_single_node_rejects_a_metadata_log_with_other_voters(voters: tuple[int, ...], why: str) -> None:
    found = VoterSet(Voter(key=ReplicaKey(node, UUID(int=node))) for node in voters)
    history = SimpleNamespace(voters=found)
    log = SimpleNamespace(node=SimpleNamespace(quorum=SimpleNamespace(history=history)))
    quorum = SimpleNamespace(key=ReplicaKey(1, UUID(int=1)))
    with pytest.raises(DirectoryRejected, match=why):
        reject_other_voters(cast("Any", log), cast("Any", quorum))
    history.voters = VoterSet([Voter(key=quorum.key)])
    reject_other_voters(cast("Any", log), cast("Any", quorum))


def test_the_number_of_pending_auto_created_topics_is_bounded(tmp_path: Path) -> None:
    async def act(loop: VirtualLoop) -> None:
        creator = TopicCreator(*(cast("Any", None) for _ in range(5)))
        creator.create_soon(f"topic-{number}" for number in range(REQUESTED_TOPICS_MAX + 5))
        assert list(creator._requested)[-1] == f"topic-{REQUESTED_TOPICS_MAX - 1}"

    play(act)
