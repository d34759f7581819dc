"""Changes of thousands of records: planned, written and replayed in steps, as one operation each."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.plans.topics import CreatedTopic, NewTopic
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_configs import AlterConfigsResource
from kwire.protocol.messages.metadata_records import BrokerRegistrationChangeRecord
from kwire.server.apis.configs.altered_resources import sift
from kwire.server.requests.context import RequestContext
from tests.cluster.world import NODE, controller_of, metadata_log, registered
from tests.support.listeners import PublishedTo
from tests.support.loop_steps import in_short_steps, needs_lines
from tests.support.metadata import lead, register_broker

OTHER = NODE + 1
PARTITIONS = 2000
"""Enough partitions to distinguish short steps from one long step: each takes some hundred lines of code."""


def requested(name: str, partitions: int) -> NewTopic:
    return NewTopic(name=name, num_partitions=partitions, replication_factor=1, configs={})


async def created(controller: Controller, name: str, partitions: int) -> CreatedTopic | KafkaError:
    (outcome,) = await controller.create_topics([requested(name, partitions)], validate_only=False)
    return outcome


async def register_other(log: MetadataLog) -> None:
    """Register a second broker that can lead."""
    await register_broker(log, broker_id=OTHER, endpoint=("PLAINTEXT", "localhost", 9094), directories=[UUID(int=78)])


@needs_lines
def test_the_largest_topic_is_planned_and_written_in_steps(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            outcome = await in_short_steps(created(controller, "t", PARTITIONS // 2))
            assert isinstance(outcome, CreatedTopic)
            grown = await in_short_steps(controller.create_partitions([("t", PARTITIONS, None)], validate_only=False))
            assert grown == [None]
            partitions = log.image.topics["t"].partitions
            assert [(each.leader, each.isr) for each in partitions] == [(NODE, (NODE,))] * PARTITIONS

    asyncio.run(main())


@needs_lines
def test_assignments_are_looked_at_in_steps(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            assigned = NewTopic(name="t", assignments=[(index, [NODE]) for index in range(PARTITIONS)], configs={})
            (outcome,) = await in_short_steps(controller.create_topics([assigned], validate_only=False))
            assert isinstance(outcome, CreatedTopic)
            assert len(log.image.topics["t"].partitions) == PARTITIONS

    asyncio.run(main())


def test_rejections_keep_no_frames(tmp_path: Path) -> None:
    """Errors for 99,000 elements stay in memory until the whole response is sent."""

    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            (outcome,) = await controller.create_partitions([("unknown", 1, None)], validate_only=False)
            assert outcome is not None
            assert outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert outcome.__traceback__ is None

            resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="forbidden")
            context = cast("RequestContext", SimpleNamespace(allows_topic=lambda _: False))
            accepted, [(rejected, error)] = await sift([resource], context, lambda _: (None for _ in ()))
            assert (accepted, rejected) == ([], resource)
            assert error is not None
            assert (error.code, error.__traceback__) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

    asyncio.run(main())


@needs_lines
def test_a_long_log_is_replayed_in_steps_before_its_node_leads(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            for name in "ab":
                await created(controller, name, PARTITIONS // 2)
            for number in range(1000):
                log.append([BrokerRegistrationChangeRecord(broker_id=NODE, fenced=1 - 2 * (number % 2))])
            await log.committed(log.written)
            before = log.image
        async with metadata_log(tmp_path, lead=False) as log:
            reported: list[bool] = []
            log.publish_to(PublishedTo(lambda delta: reported.append(log.is_active)))
            await in_short_steps(lead(log))
            assert (log.image.topics, log.image.brokers) == (before.topics, before.brokers)
            assert reported[0] is False, "nothing was replayed once the node led"
            outcome = await created(controller_of(log), "c", 1)
            assert isinstance(outcome, CreatedTopic)

    asyncio.run(main())


async def begin(log: MetadataLog, controller: Controller) -> asyncio.Future[CreatedTopic | KafkaError]:
    """Begin to create a large topic and return the task."""
    creating = asyncio.ensure_future(created(controller, "large", 1000))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not creating.done()
    assert "large" not in log.newest_image.topics
    return creating


def test_one_of_two_concurrent_creations_of_a_topic_is_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            creating = await begin(log, controller)
            assert isinstance(await created(controller, "large", 1), CreatedTopic)
            rejection = await creating
            assert isinstance(rejection, KafkaError)
            assert rejection.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert len(log.image.topics["large"].partitions) == 1

    asyncio.run(main())


def test_a_plan_restarts_when_one_of_its_brokers_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            await register_other(log)
            creating = await begin(log, controller)
            epoch = log.newest_image.brokers[NODE].broker_epoch
            log.append([BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=epoch, fenced=1)])
            assert isinstance(await creating, CreatedTopic)
            leaders = {each.leader for each in log.image.topics["large"].partitions}
            assert leaders == {OTHER}, "no partition is led by the broker that is fenced"

    asyncio.run(main())


def test_unrelated_changes_do_not_restart_a_plan(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            creating = await begin(log, controller)
            turns = 0
            while not creating.done():
                assert isinstance(await created(controller, f"small-{turns}", 1), CreatedTopic)
                turns += 1
                assert turns < 1000
            assert isinstance(await creating, CreatedTopic)

    asyncio.run(main())


def test_a_plan_whose_brokers_change_all_the_time_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            await register_other(log)
            creating = await begin(log, controller)
            epoch = log.newest_image.brokers[OTHER].broker_epoch
            for turn in range(1000):
                if creating.done():
                    break
                if turn % 8 == 0:  # a plan has about 16 steps
                    change = 1 if turn % 16 else -1
                    log.append([BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=epoch, fenced=change)])
                await asyncio.sleep(0)
            assert isinstance(await creating, CreatedTopic)
            assert turn < 500

    asyncio.run(main())
