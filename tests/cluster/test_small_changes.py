"""Metadata changes that change nothing, repeat, or raise the quorum's own version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import CHUNK, at_once
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigError, ConfigResourceType
from kwire.cluster.configs.group_configs import check_group_configs
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.plans.configs import AlterOperation, Change
from kwire.cluster.controller.plans.features import FeatureUpdate, UpgradeType
from kwire.cluster.controller.plans.topics import NewTopic
from kwire.cluster.directory_ids import MIGRATING, UNASSIGNED, default_directory
from kwire.cluster.metadata.replay import Replay
from kwire.cluster.partitions.divergence import EpochEnd, truncation_offset
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord, TopicRecord, encode_metadata_record
from kwire.protocol.records import Record, encode_batch
from tests.cluster.world import NODE, controller_of, metadata_log, registered


def test_a_quota_that_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            entity = (("user", "u"),)

            async def alter(*operations: tuple[str, float | None]) -> int:
                outcomes = await controller.alter_client_quotas(
                    [(entity, operations)], is_host=lambda _: True, validate_only=False
                )
                assert outcomes == {entity: None}
                return log.next_offset

            first = await alter(("consumer_byte_rate", 5.0))
            assert await alter(("consumer_byte_rate", 5.0)) == first
            assert await alter(("consumer_byte_rate", 5.0), ("producer_byte_rate", 7.0)) == first + 1
            assert await alter(("request_percentage", None)) == first + 1

    asyncio.run(main())


def test_a_topic_that_is_named_twice_is_deleted_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            requested = NewTopic(name="t", num_partitions=1, replication_factor=1, configs={})
            await controller.create_topics([requested], validate_only=False)
            topic = log.image.topics["t"]
            first, second = await controller.delete_topics([topic, topic])
            assert first is None
            assert isinstance(second, KafkaError)
            assert second.code is ErrorCode.UNKNOWN_TOPIC_ID
            assert log.image.topics == {}

    asyncio.run(main())


TOPIC = (int(ConfigResourceType.TOPIC), "t")
DELETED: list[Change] = [(f"x{number}", AlterOperation.DELETE, None) for number in range(3 * CHUNK)]
"""Deletions: enough of them that the change takes several steps."""


async def created(controller: Controller, name: str) -> None:
    requested = NewTopic(name=name, num_partitions=1, replication_factor=1, configs={})
    await controller.create_topics([requested], validate_only=False)


def test_a_long_change_of_a_configuration_starts_again_if_a_short_one_comes_between(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            await created(controller, "t")
            long = [*DELETED, ("cleanup.policy", AlterOperation.APPEND, "compact")]
            short = [("cleanup.policy", AlterOperation.SET, "compact")]
            outcomes = await asyncio.gather(
                controller.alter_configs([(TOPIC, long)], validate_only=False),
                controller.alter_configs([(TOPIC, short)], validate_only=False),
            )
            assert list(outcomes) == [[None], [None]]
            assert dict(log.image.config_of(*TOPIC)) == {"cleanup.policy": "compact"}

    asyncio.run(main())


def test_a_long_change_of_a_configuration_is_made_however_often_others_come_between(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            await created(controller, "t")
            long = [*DELETED, ("cleanup.policy", AlterOperation.SET, "compact")]
            changing = asyncio.ensure_future(controller.alter_configs([(TOPIC, long)], validate_only=False))
            number = 0
            while not changing.done():
                number += 1
                value = str(1000 + number)
                log.append([ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value=value)])
                await asyncio.sleep(0)
                assert number < 1000
            assert await changing == [None]
            settings = dict(log.newest_image.config_of(*TOPIC))
            assert settings == {"cleanup.policy": "compact", "segment.ms": str(1000 + number)}

    asyncio.run(main())


def test_a_former_controller_rejects_the_whole_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            append, rejections = log.append, [KafkaError(ErrorCode.NOT_CONTROLLER)]
            monkeypatch.setattr(
                log, "append", lambda records: append(records) if rejections == [] else _raise(rejections)
            )
            wishes = [NewTopic(name=name, num_partitions=1, replication_factor=1, configs={}) for name in ("a", "b")]
            with pytest.raises(KafkaError) as raised:
                await controller.create_topics(wishes, validate_only=False)
            assert raised.value.code is ErrorCode.NOT_CONTROLLER

    def _raise(errors: list[KafkaError]) -> None:
        raise errors.pop()

    asyncio.run(main())


def test_the_quorums_version_stays_where_it_is_or_is_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = controller_of(log)
            end = log.next_offset

            async def update(level: int, *, validate_only: bool = False) -> None:
                update = FeatureUpdate(name="kraft.version", level=level, upgrade_type=UpgradeType.UPGRADE)
                await controller.update_features([update], controller_id=NODE, validate_only=validate_only)

            await update(1)
            await update(1, validate_only=True)
            for level in (0, 2):
                with pytest.raises(KafkaError) as rejected:
                    await update(level)
                assert rejected.value.code is ErrorCode.INVALID_UPDATE_VERSION
            assert log.next_offset == end
            assert log.node.quorum.history.kraft_version == 1

    asyncio.run(main())


def test_a_new_replica_is_where_its_broker_may_put_it() -> None:
    one, other = UUID(int=1000), UUID(int=1001)
    assert default_directory([one]) == one
    assert default_directory([one, other]) == UNASSIGNED
    assert default_directory([]) == MIGRATING


def batch(base_offset: int, name: str) -> bytes:
    record = TopicRecord(name=name, topic_id=UUID(int=base_offset + 1))
    stored = Record(value=encode_metadata_record(record), timestamp=0)
    return bytes(encode_batch([stored], base_offset=base_offset, partition_leader_epoch=3))


def test_only_the_batches_that_are_asked_for_are_replayed() -> None:
    replay = Replay()
    data = b"".join(batch(offset, name) for offset, name in enumerate("abcd"))
    assert at_once(replay.feed(data, begin=1, end=3)) == 3
    assert set(replay.image.topics) == {"b", "c"}
    assert (replay.image.offset, replay.image.epoch) == (2, 3)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_of_a_group_is_longer_than_its_heartbeat_interval(kind: str) -> None:
    session = f"{kind}.session.timeout.ms"
    settings = {**default_settings(), f"group.{kind}.min.session.timeout.ms": 1}
    heartbeat = settings[f"group.{kind}.heartbeat.interval.ms"]
    check_group_configs({session: str(heartbeat + 1)}, settings)
    with pytest.raises(ConfigError, match=f"{session} must be greater than {kind}.heartbeat.interval.ms"):
        check_group_configs({session: str(heartbeat)}, settings)


class Epochs:
    """Epochs of a log that has records of epoch 5 only, up to offset 20."""

    log_end_offset = 20

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return (-1, -1) if epoch != 5 else (5, 20)


@pytest.mark.parametrize(("leaders", "offset"), [((3, 12), 12), ((3, 30), 20), ((9, 7), 7), ((5, 15), 15)])
def test_a_log_without_the_leaders_epoch_is_truncated_to_the_epoch_end(leaders: tuple[int, int], offset: int) -> None:
    log: Any = Epochs()
    assert truncation_offset(log, EpochEnd(*leaders)) == offset
