"""Replicas with damaged logs or full disks: other replicas lead and form the in-sync set."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.directory_ids import LOST
from kwire.cluster.metadata.image import PartitionImage
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.records import MAGIC_POSITION, decode_all
from kwire.server.assembly.broker_lifecycle import MetadataDiskFullError
from kwire.simulation.device import failure
from tests.server.replicated_topic import LAG_MAX_MS, Scene, play
from tests.support.compiled import replaces_methods
from tests.support.requests import create_request


def test_a_leader_that_finds_its_log_damaged_is_followed_by_another() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged, others = scene.leader_id, scene.followers
        scene.leader.log.health.damaged(CorruptLogError("a batch is not what was written"))
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))
        (heir,) = [broker for broker in others if scene.partition(broker).is_led]
        await scene.until(lambda: set(scene.partition(heir).image.isr) == set(others))
        data = (await scene.fetch(heir)).records
        assert [record.value for record in decode_all(bytes(data))] == [b"a"]
        assert (await scene.produce(b"b", broker=heir)).error_code == ErrorCode.NONE
        assert len(scene.partition(heir).image.isr) == 2, "a damaged replica does not come back by itself"
        node = scene.cluster.brokers[damaged - 1]
        assert node.is_serving
        node.kill()
        await node.start()
        await scene.until(lambda: len(scene.partition(heir).image.isr) == 3, seconds=120)

    play(acts, min_insync_replicas=2)


def damage_below_recovery_point(scene: Scene, broker_id: int) -> str:
    """Kill a broker and damage durable bytes of its log; return the log's directory."""
    node = scene.cluster.brokers[broker_id - 1]
    log = scene.partition(broker_id).log
    log.flush()
    node.server._replicas.logs.directories.checkpoint({})
    node.kill()
    node.host.device.flip(f"{log.directory}/{0:020d}.log", 66)
    return log.directory


def test_a_replica_with_a_log_damaged_at_start_is_reported_to_the_controller() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged = scene.leader_id
        damage_below_recovery_point(scene, damaged)
        await scene.restart(damaged)
        assert scene.cluster.brokers[damaged - 1].server.services.partitions.get("t", 0) is None
        other = damaged % 3 + 1

        def directory() -> UUID:
            image = scene.partition(other).image
            return image.directories[image.replicas.index(damaged)]

        await scene.until(lambda: directory() == LOST)

    play(acts, min_insync_replicas=2)


def test_a_leader_whose_log_is_damaged_at_its_start_is_followed_by_another() -> None:
    """The leader was alone in the in-sync set; the others have all committed records and are eligible (KIP-966)."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged, others = scene.leader_id, scene.followers
        for broker in others:
            await scene.cluster.brokers[broker - 1].stop()
        log = scene.leader.log
        node = scene.cluster.brokers[damaged - 1]
        await node.stop()
        node.host.device.flip(f"{log.directory}/{0:020d}.log", MAGIC_POSITION)
        for broker in (1, 2, 3):
            await scene.restart(broker)
        assert node.server.services.partitions.get("t", 0) is None
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))

    play(acts, min_insync_replicas=2)


def test_a_topic_of_the_name_of_a_damaged_one_is_made_and_served() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged = scene.leader_id
        damage_below_recovery_point(scene, damaged)
        node = scene.cluster.brokers[damaged - 1]
        await scene.restart(damaged)
        assert node.server.services.partitions.get("t", 0) is None
        answer = await scene.ask(damaged, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)
        assert answer.responses[0].error_code == ErrorCode.NONE
        answer = await scene.ask(damaged, create_request("t", replicas=3), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE
        await scene.until(lambda: all(each.server.services.partitions.get("t", 0) for each in scene.cluster.brokers))
        assert (await scene.produce(b"b")).error_code == ErrorCode.NONE
        await scene.until(lambda: scene.partition(damaged).log.log_end_offset == 1)

    play(acts, min_insync_replicas=2)


def test_a_leader_whose_disk_is_full_is_followed_by_another_and_comes_back() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        full, others = scene.leader_id, scene.followers
        device = scene.cluster.brokers[full - 1].host.device
        device.fill(free_bytes=0)
        assert (await scene.produce(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))
        (heir,) = [broker for broker in others if scene.partition(broker).is_led]
        assert (await scene.produce(b"c", broker=heir)).error_code == ErrorCode.NONE
        assert set(scene.partition(heir).image.isr) == set(others)
        await asyncio.sleep(5)
        assert set(scene.partition(heir).image.isr) == set(others), "a replica without space does not come back"
        device.empty()
        await scene.until(lambda: len(scene.partition(heir).image.isr) == 3)
        assert scene.partition(full).log.log_end_offset == 2
        node = scene.cluster.brokers[full - 1].server._node
        directories = scene.partition(heir).image.directories
        replicas = scene.partition(heir).image.replicas
        assert directories[replicas.index(full)] in node.storage.directory_ids.values()

    play(acts, min_insync_replicas=2)


def test_a_follower_whose_disk_is_full_is_not_waited_for() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        full = scene.followers[0]
        device = scene.cluster.brokers[full - 1].host.device
        device.fill(free_bytes=0)
        began = scene.simulation.now
        assert (await scene.produce(b"b")).error_code == ErrorCode.NONE
        assert scene.simulation.now - began < LAG_MAX_MS / 1000
        assert full not in scene.leader.image.isr
        device.empty()
        await scene.until(lambda: len(scene.leader.image.isr) == 3)

    play(acts, min_insync_replicas=2)


@replaces_methods
def test_a_leader_that_has_no_space_for_a_new_log_is_followed_by_another_and_comes_back() -> None:
    async def acts(scene: Scene) -> None:
        full = 1
        logs: Any = scene.cluster.brokers[full - 1].server.services.partitions._logs
        make = logs.get_or_create

        def no_space(*_: Any) -> PartitionLog:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

        logs.get_or_create = no_space
        await scene.ask(2, create_request("u", partitions=3, replicas=3), 7)

        def images() -> Sequence[PartitionImage]:
            topic = scene.cluster.brokers[1].server.metadata_log.image.topics.get("u")
            return topic.partitions if topic is not None else ()

        await scene.until(lambda: any(image.leader == full for image in images()))
        await scene.until(lambda: {image.leader for image in images()} == {2, 3})
        await asyncio.sleep(5)
        assert all(full not in image.isr for image in images()), "a replica without a log does not come back"
        logs.get_or_create = make
        await scene.until(lambda: all(set(image.isr) == {1, 2, 3} for image in images()))

    play(acts, min_insync_replicas=2)


def test_after_full_disks_records_are_accepted_again_with_space() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        devices = [broker.host.device for broker in scene.cluster.brokers]
        for device in devices:
            device.fill(free_bytes=0)
        for broker in (1, 2, 3):
            assert (await scene.produce(b"b", broker=broker)).error_code != ErrorCode.NONE
            await asyncio.sleep(1)
        for device in devices:
            device.empty()
        began, answer = scene.simulation.now, ErrorCode.UNKNOWN_SERVER_ERROR
        while answer != ErrorCode.NONE:
            await asyncio.sleep(0.1)
            assert scene.simulation.now - began < 10, f"still {answer}"
            answer = ErrorCode((await scene.produce(b"c", broker=scene.partition(1).leader_id)).error_code)
        await scene.until(lambda: len(scene.partition(1).image.isr) == 3)

    play(acts, min_insync_replicas=2)


def test_a_damaged_follower_is_left_out() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged = scene.followers[0]
        scene.partition(damaged).log.health.damaged(CorruptLogError("a batch is not what was written"))
        await scene.until(lambda: damaged not in scene.leader.image.isr)
        await asyncio.sleep(10)
        assert set(scene.leader.image.isr) == {1, 2, 3} - {damaged}

    play(acts, min_insync_replicas=2)


def test_a_damaged_leader_without_another_in_sync_replica_stays_leader() -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        await scene.produce(b"a", acks=1)
        await scene.until(lambda: len(scene.leader.image.isr) == 1)
        before = scene.leader.image
        scene.leader.log.health.damaged(CorruptLogError("a batch is not what was written"))
        scene.heal()
        await asyncio.sleep(10)
        assert scene.leader.image == before

    play(acts)


def test_an_eligible_replica_replaces_a_damaged_sole_in_sync_leader() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        others = scene.followers
        scene.cut_off(*others)
        await scene.produce(b"b", acks=1)
        await scene.until(lambda: set(scene.leader.image.eligible_leader_replicas) == set(others))
        scene.leader.log.health.damaged(CorruptLogError("a batch is not what was written"))
        scene.heal()
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))
        await scene.until(lambda: set(scene.partition(others[0]).image.isr) == set(others))
        assert (await scene.produce(b"c", broker=scene.partition(others[0]).leader_id)).error_code == ErrorCode.NONE

    play(acts, min_insync_replicas=2)


def test_a_damaged_replica_that_is_eligible_does_not_lead() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        leader, others = scene.leader_id, scene.followers
        scene.cut_off(*others)
        await scene.produce(b"b", acks=1)
        await scene.until(lambda: set(scene.leader.image.eligible_leader_replicas) == set(others))
        damaged, heir = sorted(others, key=scene.leader.image.replicas.index)
        scene.partition(damaged).log.health.damaged(CorruptLogError("a batch is not what was written"))
        await asyncio.sleep(2)
        scene.cluster.brokers[leader - 1].kill()
        await scene.until(lambda: scene.partition(heir).is_led, seconds=120)
        assert (await scene.fetch(heir)).error_code == ErrorCode.NONE

    play(acts, min_insync_replicas=2)


def test_a_replica_is_found_again_after_a_request_that_came_late() -> None:
    """A request that was sent twice after a timeout may be executed after a newer one with other contents."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        (follower, _), leader = scene.followers, scene.leader
        before = leader.image.partition_epoch
        assignments = scene.partition(follower).log.health.on_trouble.func.__self__._assignments  # type: ignore[union-attr]
        assignments._unconfirmed[scene.topic_id, 0] = LOST
        assignments._woken.set()
        await scene.until(lambda: leader.image.partition_epoch > before)
        await scene.until(lambda: len(leader.image.isr) == 3 and LOST not in leader.image.directories)
        assert (await scene.produce(b"b")).error_code == ErrorCode.NONE

    play(acts, min_insync_replicas=2)


def test_deleting_a_topic_on_a_full_disk_stops_no_broker() -> None:
    """The metadata log has space; only a large batch does not fit."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        full = scene.leader_id
        node = scene.cluster.brokers[full - 1]
        node.host.device.fill(free_bytes=100_000)
        rejected = await scene.produce(bytes(200_000))
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        log = scene.partition(full).log
        await scene.ask(
            scene.followers[0], DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=30_000), 6
        )
        await scene.until(lambda: not node.server._node.disk.exists(log.directory), seconds=120)
        await asyncio.sleep(2)
        assert not node.server.failed.done()

    play(acts, min_insync_replicas=2)


def test_a_broker_without_space_for_metadata_gives_up_leadership_and_stops() -> None:
    """Otherwise the partition would have no working leader: the broker is elected, but cannot store the election."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        leader, others = scene.leader, scene.followers
        held_up, heir = sorted(others, key=leader.image.replicas.index)
        node = scene.cluster.brokers[held_up - 1]
        node.host.device.fail("append", path="__cluster_metadata", code=errno.ENOSPC)
        scene.cluster.brokers[leader.leader_id - 1].kill()
        await scene.until(lambda: scene.partition(heir).image.leader == held_up, seconds=120)
        assert not scene.partition(held_up).is_led
        await scene.until(lambda: scene.partition(heir).is_led, seconds=120)
        assert (await scene.produce(b"b", broker=heir)).error_code == ErrorCode.NONE
        await scene.until(node.server.failed.done)
        assert isinstance(node.server.failed.result(), MetadataDiskFullError)

    play(acts)


def begin_an_epoch(scene: Scene) -> None:
    """Start a new epoch of the metadata quorum."""
    active = scene.cluster.active_controller
    assert active is not None
    node = active.server.metadata_log.node
    node.resign(node.quorum.epoch)


@pytest.mark.parametrize("file", ["", "leader-epoch-checkpoint"])
def test_a_broker_without_space_for_a_new_epoch_gives_up_leadership_and_stops(file: str) -> None:
    """The broker cannot even receive metadata, but sends heartbeats."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        leader, others = scene.leader, scene.followers
        held_up, heir = sorted(others, key=leader.image.replicas.index)
        node = scene.cluster.brokers[held_up - 1]
        node.host.device.fail("replace", path=f"__cluster_metadata-0/{file}", code=errno.ENOSPC)
        active = scene.cluster.active_controller
        assert active is not None
        active.kill()
        await asyncio.sleep(10)
        scene.cluster.brokers[leader.leader_id - 1].kill()
        await scene.until(lambda: scene.partition(heir).is_led, seconds=200)
        assert (await scene.produce(b"b", broker=heir)).error_code == ErrorCode.NONE
        await scene.until(node.server.failed.done)
        assert isinstance(node.server.failed.result(), MetadataDiskFullError)

    play(acts)


@pytest.mark.long
def test_a_broker_without_space_and_controller_continues_when_it_has_space() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        everybody: list[Any] = [*scene.cluster.brokers, *scene.cluster.controllers]
        devices = [each.host.device for each in everybody]
        faults = [device.fail("replace", path="__cluster_metadata", code=errno.ENOSPC) for device in devices]
        begin_an_epoch(scene)
        await asyncio.sleep(2 * 60)
        assert not any(each.server.failed.done() for each in everybody)
        for device, fault in zip(devices, faults, strict=True):
            device.heal(fault)
        await scene.ask(1, create_request("u", partitions=1, replicas=3), 7, seconds=200)
        await asyncio.sleep(2 * 60)
        assert not any(each.server.failed.done() for each in everybody)
        assert (await scene.produce(b"b")).error_code == ErrorCode.NONE

    play(acts)


@pytest.mark.long
def test_a_lagging_broker_without_space_waits_while_there_is_no_controller() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        everybody: list[Any] = [*scene.cluster.brokers, *scene.cluster.controllers]
        behind = scene.cluster.brokers[scene.followers[0] - 1]

        def no_space(node: Any) -> Any:
            return node.host.device.fail("replace", path="__cluster_metadata", code=errno.ENOSPC)

        faults = {id(behind): no_space(behind)}
        begin_an_epoch(scene)
        await scene.until(lambda: behind.server.metadata_log.node.lacks_space)
        await asyncio.sleep(4)
        faults.update({id(node): no_space(node) for node in everybody if node is not behind})
        begin_an_epoch(scene)
        await asyncio.sleep(2 * 60)
        assert scene.cluster.active_controller is None
        assert not any(each.server.failed.done() for each in everybody)
        for node in everybody:
            node.host.device.heal(faults[id(node)])
        await scene.ask(1, create_request("u", partitions=1, replicas=3), 7, seconds=200)
        await asyncio.sleep(2 * 60)
        assert not any(each.server.failed.done() for each in everybody)

    play(acts)


def test_a_disk_that_stays_full_causes_no_busy_loop() -> None:
    """A fetcher addresses the metadata leader by id or as a bootstrap server; it must pause in both cases."""

    async def acts(scene: Scene) -> None:
        asked_at: list[float] = []

        def full(operation: str, path: str) -> DiskFailure | None:
            if operation != "append" or "__cluster_metadata" not in path:
                return None
            asked_at.append(scene.simulation.now)
            return failure("append", path, errno.ENOSPC)

        scene.cluster.brokers[0].host.device.faults.append(full)
        await asyncio.sleep(5)
        assert 10 < len(asked_at) < 5 * 60

    play(acts)


@pytest.mark.long
def test_brokers_without_space_for_uncommitted_metadata_continue_with_space() -> None:
    """Two of three controllers have no space either, so no record is committed that the brokers would miss."""

    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        active = scene.cluster.active_controller
        brokers = scene.cluster.brokers
        controllers = [node.host for node in scene.cluster.controllers if node is not active]
        devices = [host.device for host in (*(node.host for node in brokers), *controllers)]
        faults = [device.fail("append", path="__cluster_metadata", code=errno.ENOSPC) for device in devices]
        request = scene.ask(1, create_request("u", partitions=1, replicas=3), 7, seconds=200)
        making = asyncio.ensure_future(request)
        await asyncio.sleep(2 * 60)
        assert all(node.server.metadata_log.node.log.held_up_since_ms is not None for node in brokers)
        for device, fault in zip(devices, faults, strict=True):
            device.heal(fault)
        await asyncio.wait([making])
        await scene.until(lambda: "u" in brokers[0].server.metadata_log.image.topics)
        await asyncio.sleep(10)
        assert not any(node.server.failed.done() for node in brokers)
        assert (await scene.produce(b"b")).error_code == ErrorCode.NONE

    play(acts)


def test_a_broker_without_space_for_its_unfencing_does_not_start() -> None:
    """Otherwise the controllers would elect it, because it sends heartbeats."""

    async def acts(scene: Scene) -> None:
        leader, starting = scene.leader_id, scene.followers[0]
        node = scene.cluster.brokers[starting - 1]
        killed = node.server.metadata_log.image.brokers[starting].incarnation_id
        node.kill()

        def no_space_once_registered(operation: str, path: str) -> DiskFailure | None:
            known = node.metadata_log.image.brokers.get(starting) if node.metadata_log is not None else None
            is_registered = known is not None and known.incarnation_id != killed
            wanted = operation == "append" and "__cluster_metadata" in path
            return failure(operation, path, errno.ENOSPC) if wanted and is_registered else None

        node.host.device.faults.append(no_space_once_registered)
        with pytest.raises(MetadataDiskFullError):
            await node.start()
        others = scene.cluster.brokers[leader - 1].server
        await scene.until(lambda: others.metadata_log.image.brokers[starting].fenced, seconds=120)

    play(acts)
