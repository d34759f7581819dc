"""Migrations between classic and consumer groups that fail: the group stays what it was, and so do all others."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_consumer_protocol,
)
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.clients import client_named
from tests.coordinator.consumer_script import ScriptRunner
from tests.coordinator.group_script import GROUP
from tests.virtual_loop import VirtualLoop, virtual_loop


class Script:
    """Consumer group script whose commands a test runs one by one."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.runner = ScriptRunner(directory, loop)
        self._loop = loop

    def run(self, *commands: str) -> list[str]:
        """Run commands, and return the results of the last one."""
        results: list[str] = []
        for command in commands:
            results = self._loop.run_until_complete(self.runner.run(command))
        return results

    def join(self, name: str, *protocols: tuple[str, bytes]) -> ErrorCode:
        """Let a new classic member join a consumer group with these protocols and their metadata."""
        client = self.runner._client(name)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=100_000,
            rebalance_timeout_ms=100_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each, metadata in protocols],
        )

        async def answered() -> JoinGroupResponse:
            answer = self.runner.world.groups.join(request, client_named(name), version=3)
            return await answer if isinstance(answer, Awaitable) else answer

        response = self._loop.run_until_complete(answered())
        client.member_id, client.generation = response.member_id, response.generation_id
        return ErrorCode(response.error_code)

    def assign(self, leader: str, partitions: dict[str, list[int]]) -> None:
        """Let the leader of generation 1 assign partitions of the topic t to members."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id=self.runner._client(leader).member_id,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.runner._client(name).member_id, assignment=assignment_of(indexes)
                )
                for name, indexes in partitions.items()
            ],
        )

        async def sync() -> ErrorCode:
            answer = self.runner.world.groups.sync(request)
            return ErrorCode((await answer if isinstance(answer, Awaitable) else answer).error_code)

        assert self._loop.run_until_complete(sync()) is ErrorCode.NONE


SUBSCRIPTION = encode_consumer_protocol(ConsumerProtocolSubscription(topics=["t"]), 0)


def assignment_of(partitions: list[int]) -> bytes:
    """Return an assignment that names the topic once for each partition."""
    topics = [AssignmentTopicPartition(topic="t", partitions=[index]) for index in partitions]
    return encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=topics))


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with virtual_loop() as loop:
        script = Script(tmp_path, loop)
        script.run("config initial_rebalance_delay_ms=10", "setting group.consumer.assignment.interval.ms=0")
        yield script
        script.runner.stop()


def test_a_classic_group_with_a_partition_assigned_twice_is_not_upgraded(script: Script) -> None:
    script.run("join x version=3; join y version=3", "wait 20")
    script.assign("x", {"x": [0, 1], "y": [1]})
    why = "because partition 1 of topic t is assigned to two members."
    assert script.run("beat b topics=t") == [
        f"b: UNKNOWN_SERVER_ERROR (Cannot upgrade classic group g to consumer group {why})"
    ]
    assert script.run("heartbeat x") == ["x heartbeat: NONE"]
    assert script.runner.world.groups._runtime.reloads == 0


def test_a_member_keeps_all_partitions_of_a_topic_that_its_assignment_names_twice(script: Script) -> None:
    script.run("join x version=3", "wait 20")
    script.assign("x", {"x": [0, 1]})
    script.run("beat b topics=t")
    consumers = script.run("consumers")
    assert any(" t-0,t-1" in line for line in consumers), consumers


def test_a_returning_static_member_that_upgrades_the_group_leaves_no_partition_unassigned(script: Script) -> None:
    script.run("join x version=9 instance=i; join y version=3", "wait 20")
    script.assign("x", {"x": [0], "y": [1]})
    script.run("leave y", "beat b topics=t instance=i", "beat b")
    assert script.run("consumers") == ["Stable epoch=2 target=2", "  b epoch=2 t-0,t-1"]


def test_a_static_member_whose_return_is_committed_after_the_upgrade_is_fenced_later(script: Script) -> None:
    script.run("join x version=9 instance=i", "wait 20", "sync x x=")
    script.run("hold-commits", "join y version=9 instance=i", "beat b topics=t", "release-commits")
    script.run("wait 11000")  # the session of y ends
    assert script.run("beat b", "consumers") == ["Stable epoch=3 target=3", "  b epoch=3 t-0,t-1"]


def test_a_static_member_whose_join_is_committed_after_the_downgrade_is_fenced_later(script: Script) -> None:
    script.run("beat b topics=t", "hold-commits")
    script.run("join x version=9 instance=i rebalance=5000; leave-group b; release-commits")
    script.run("wait 11000")  # the session of x ends
    assert script.run("describe") == ["Empty type=consumer protocol="]


@pytest.mark.parametrize("metadata", [b"\0", b"\xff\xff"], ids=["without a version", "negative version"])
def test_a_member_whose_removal_fails_is_fenced_later(script: Script, metadata: bytes) -> None:
    """The only protocol that both classic members support has metadata that cannot be read."""
    script.run("beat b topics=t")
    assert script.join("x", ("range", SUBSCRIPTION), ("common", metadata)) is ErrorCode.NONE
    assert script.join("y", ("sticky", SUBSCRIPTION), ("common", metadata)) is ErrorCode.NONE
    (failed,) = script.run("leave-group b")
    assert failed.startswith("b: GROUP_ID_NOT_FOUND (Cannot downgrade the classic group g: ")
    script.run("wait 50000")  # its session ends
    assert script.run("list") == ["g Reconciling consumer consumer"]
    script.run("leave x", "wait 600")
    assert script.run("list") == ["g PreparingRebalance classic consumer"]


def test_a_protocol_that_a_member_names_twice_counts_once(script: Script) -> None:
    """Otherwise members without a common protocol could join, and the group could not become a classic one."""
    script.run("beat b topics=t")
    protocol_a, protocol_b = ("a", SUBSCRIPTION), ("b", SUBSCRIPTION)
    assert script.join("x", protocol_a, protocol_b, protocol_b) is ErrorCode.NONE
    assert script.join("y", protocol_a) is ErrorCode.NONE
    assert script.join("z", protocol_b) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert script.join("z", protocol_a) is ErrorCode.NONE
    script.run("leave x")
    assert script.join("x", protocol_b) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert script.run("leave-group b", "list") == ["g PreparingRebalance classic consumer"]
