"""Replicas whose log is damaged, or whose disk is full: others lead, and are in sync without them."""

from __future__ import annotations

import asyncio

from kwire.log.errors import CorruptLogError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.records import decode_all
from tests.server.replicated_topic import LAG_MAX_MS, Scene, play


def test_a_leader_that_finds_its_log_damaged_is_followed_by_another() -> None:
    async def acts(scene: Scene) -> None:
        await scene.produce(b"a")
        damaged, others = scene.leader_id, scene.followers
        scene.leader.log.damaged(CorruptLogError("a batch is not what was written"))
        await scene.until(lambda: any(scene.partition(broker).is_led for broker in others))
        (heir,) = [broker for broker in others if scene.partition(broker).is_led]
        await scene.until(lambda: set(scene.partition(heir).image.isr) == set(others))
        data = (await scene.fetch(heir)).records
        assert [record.value for record in decode_all(bytes(data))] == [b"a"]
        assert (await scene.produce(b"b", broker=heir)).error_code == ErrorCode.NONE
        assert len(scene.partition(heir).image.isr) == 2, "who is damaged does not come back by itself"
        node = scene.cluster.brokers[damaged - 1]
        assert node.is_serving
        node.kill()
        await node.start()
        await scene.until(lambda: len(scene.partition(heir).image.isr) == 3, seconds=120)

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
        assert set(scene.partition(heir).image.isr) == set(others), "who has no space does not come back"
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


def test_where_all_disks_are_full_records_are_taken_again_when_there_is_space() -> None:
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
        scene.partition(damaged).log.damaged(CorruptLogError("a batch is not what was written"))
        await scene.until(lambda: damaged not in scene.leader.image.isr)
        await asyncio.sleep(10)
        assert set(scene.leader.image.isr) == {1, 2, 3} - {damaged}

    play(acts, min_insync_replicas=2)


def test_a_damaged_replica_that_nobody_can_follow_keeps_its_place() -> None:
    async def acts(scene: Scene) -> None:
        scene.cut_off(*scene.followers)
        await scene.produce(b"a", acks=1)
        await scene.until(lambda: len(scene.leader.image.isr) == 1)
        before = scene.leader.image
        scene.leader.log.damaged(CorruptLogError("a batch is not what was written"))
        scene.heal()
        await asyncio.sleep(10)
        assert scene.leader.image == before

    play(acts)
