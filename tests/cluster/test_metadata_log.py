"""Metadata log: durable before the response, complete after a crash, equal after replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.controller import REQUESTS_AT_ONCE
from kwire.cluster.controller.plans.topics import CreatedTopic, NewTopic
from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata import image
from kwire.cluster.metadata.features import FORMATTED
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.quorum.state import load_quorum_state
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.log.checkpoints import RECOVERY_POINT_FILE
from kwire.log.disk import DiskFailure, RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.metadata_records import encode_metadata_record
from kwire.protocol.records import Record, encode_batch, iterate_headers
from tests.cluster.world import InlineWorkers, controller_of, metadata_log, registered
from tests.log.faults import FaultyDisk, broken, full
from tests.support.listeners import PublishedTo
from tests.support.metadata import allocate_producer_ids, lead

TOPIC = int(ConfigResourceType.TOPIC)
LOG = "00000000000000000000.log"


def topic(name: str, **configs: str) -> NewTopic:
    return NewTopic(name=name, num_partitions=1, replication_factor=1, configs=dict(configs))


def run(main: Any) -> None:
    asyncio.run(main)


def same(one: MetadataImage, other: MetadataImage) -> bool:
    fields = ("offset", "features", "brokers", "controllers", "topics", "topic_names", "configs", "next_producer_id")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def test_a_new_log_begins_with_voters_and_features(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            assert log.image.features == FORMATTED
            assert log.epoch == 1
            assert log.newest_image is log.image
            # leader change, kraft.version, voters; begin, six feature levels, end
            assert log.next_offset == 11

    run(main())


def test_each_start_takes_a_new_epoch(tmp_path: Path) -> None:
    async def main() -> None:
        for epoch in (1, 2, 3):
            async with metadata_log(tmp_path) as log:
                assert log.epoch == epoch
                state = load_quorum_state(RealDisk(), str(tmp_path / METADATA_DIRECTORY))
                assert (state.leader_epoch, state.leader_id) == (epoch, 1)

    run(main())


def test_a_lost_quorum_state_does_not_turn_the_epoch_back(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(3):
            async with metadata_log(tmp_path):
                pass
        (tmp_path / METADATA_DIRECTORY / "quorum-state").unlink()
        async with metadata_log(tmp_path) as log:
            assert log.epoch == 4

    run(main())


def test_an_answer_waits_for_its_fsync(tmp_path: Path) -> None:
    async def main() -> None:
        disk, workers = FaultyDisk(), InlineWorkers()
        async with metadata_log(tmp_path, disk, workers) as log:
            controller = await registered(log)
            reported: list[MetadataImage] = []
            log.publish_to(PublishedTo(lambda delta: reported.append(delta.after)))
            workers.held = True
            disk.operations.clear()
            creating = asyncio.ensure_future(controller.create_topics([topic("t")], validate_only=False))
            await turns()
            assert "t" in controller.image.topics
            assert "t" not in log.image.topics, "not published before it is durable"
            assert not creating.done()
            assert not reported
            assert ("append", f"{log_file(tmp_path)}") in disk.operations
            assert ("fsync", f"{log_file(tmp_path)}") not in disk.operations
            workers.release()
            assert isinstance((await creating)[0], CreatedTopic)
            assert ("fsync", f"{log_file(tmp_path)}") in disk.operations
            assert "t" in log.image.topics
            assert [image.offset for image in reported] == [log.image.offset]

    run(main())


def log_file(directory: Path) -> Path:
    return directory / METADATA_DIRECTORY / LOG


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_rejection_based_on_an_unflushed_change_waits_for_the_flush(tmp_path: Path) -> None:
    async def main() -> None:
        workers = InlineWorkers()
        async with metadata_log(tmp_path, workers=workers) as log:
            controller = await registered(log)
            workers.held = True
            first = asyncio.ensure_future(controller.create_topics([topic("t")], validate_only=False))
            second = asyncio.ensure_future(controller.create_topics([topic("t")], validate_only=False))
            await turns()
            assert not second.done()
            workers.release()
            assert isinstance((await first)[0], CreatedTopic)
            (rejection,) = await second
            assert isinstance(rejection, KafkaError)
            assert rejection.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert "t" in log.image.topics

    run(main())


def test_one_fsync_serves_many_changes(tmp_path: Path) -> None:
    async def main() -> None:
        workers = InlineWorkers()
        async with metadata_log(tmp_path, workers=workers) as log:
            controller = await registered(log)
            workers.held, workers.calls = True, 0
            creating = [
                asyncio.ensure_future(controller.create_topics([topic(f"t{number}")], validate_only=False))
                for number in range(50)
            ]
            await turns()
            workers.release()
            await asyncio.gather(*creating)
            assert workers.calls <= 2, "one that had begun, and one for all that came meanwhile"
            assert len(log.image.topics) == 50

    run(main())


def test_watchers_receive_each_change_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            reported: list[tuple[int, int]] = []
            log.publish_to(PublishedTo(lambda delta: reported.append((delta.before.offset, delta.after.offset))))
            for name in ("a", "b", "c"):
                await controller.create_topics([topic(name)], validate_only=False)
            assert len(reported) == 3
            assert all(new > old for old, new in reported)
            assert [old for old, _ in reported[1:]] == [new for _, new in reported[:-1]]

    run(main())


def test_changes_committed_by_one_fsync_are_published_as_one_image(tmp_path: Path) -> None:
    async def main() -> None:
        workers = InlineWorkers()
        async with metadata_log(tmp_path, workers=workers) as log:
            controller = await registered(log)
            reported: list[set[str]] = []
            log.publish_to(PublishedTo(lambda delta: reported.append(set(delta.after.topics))))
            workers.held = True
            first = asyncio.ensure_future(controller.create_topics([topic("a"), topic("b")], validate_only=False))
            await turns()
            second = asyncio.ensure_future(controller.create_topics([topic("c"), topic("d")], validate_only=False))
            await turns()
            assert len(log._uncommitted) == 2, "one image that is being flushed and the newest"
            workers.release()
            await asyncio.gather(first, second)
            assert reported == [{"a", "b"}, {"a", "b", "c", "d"}]

    run(main())


def test_a_failed_fsync_acknowledges_nothing_and_stops_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with metadata_log(tmp_path, disk) as log:
            controller = await registered(log)
            disk.fail = lambda operation, path: broken(operation, path) if operation == "fsync" else None
            creating = [controller.create_topics([topic(f"t{number}")], validate_only=False) for number in range(3)]
            outcomes = await asyncio.gather(*creating, return_exceptions=True)
            assert all(isinstance(outcome, DiskFailure) for outcome in outcomes)
            assert isinstance(log.failed.result(), DiskFailure)
            assert log.image.topics == {}
            disk.fail = lambda operation, path: None
            with pytest.raises(KafkaError):
                log.append([records.NoOpRecord()])

    run(main())


def test_a_failed_write_stops_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with metadata_log(tmp_path, disk) as log:
            controller = await registered(log)
            disk.fail = lambda operation, path: broken(operation, path) if operation == "append" else None
            with pytest.raises(DiskFailure):
                await controller.create_topics([topic("t")], validate_only=False)
            assert isinstance(log.failed.result(), DiskFailure)
            assert controller.image.topics == {}

    run(main())


def test_a_full_disk_rejects_the_change_and_the_node_continues(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with metadata_log(tmp_path, disk) as log:
            controller = await registered(log)
            disk.fail = lambda operation, path: full(operation, path) if operation == "append" else None
            (rejection,) = await controller.create_topics([topic("t")], validate_only=False)
            assert isinstance(rejection, KafkaError)
            assert rejection.code is ErrorCode.KAFKA_STORAGE_ERROR
            disk.fail = lambda operation, path: None
            assert isinstance((await controller.create_topics([topic("t")], validate_only=False))[0], CreatedTopic)
            assert not log.failed.done()

    run(main())


def test_nothing_is_written_when_a_request_is_only_to_be_validated(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            end = log.next_offset
            outcomes = await controller.create_topics([topic("a"), topic("a/")], validate_only=True)
            assert isinstance(outcomes[0], CreatedTopic)
            assert isinstance(outcomes[1], KafkaError)
            assert log.next_offset == end

    run(main())


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def main() -> None:
        blocks: list[range] = []
        for _ in range(3):
            async with metadata_log(tmp_path) as log:
                await registered(log)
                blocks += await asyncio.gather(*(allocate_producer_ids(log, 1, 1) for _ in range(4)))
        ids = [number for block in blocks for number in block]
        assert len(set(ids)) == len(ids) == 12_000

    run(main())


@pytest.mark.parametrize("cut", [1, 70, 150])
def test_a_crash_between_the_first_batches_is_made_good(tmp_path: Path, cut: int) -> None:
    """The batch with the voters may be complete while the bootstrap records are torn or missing."""

    async def main() -> None:
        async with metadata_log(tmp_path):
            pass
        path = log_file(tmp_path)
        whole = path.read_bytes()
        second = 12 + int.from_bytes(whole[8:12], "big")
        path.write_bytes(whole[: min(second + cut - 1, len(whole) - 1)])
        for leftover in (*path.parent.glob("*index"), path.parent / RECOVERY_POINT_FILE):
            leftover.unlink()
        for _ in range(2):
            async with metadata_log(tmp_path) as log:
                assert log.image.features == FORMATTED

    run(main())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_half_written_bootstrap_records_are_rewritten(tmp_path: Path, count: int) -> None:
    """Kafka's controller writes many bootstrap records in several batches."""
    halves: list[Any] = [
        records.BeginTransactionRecord(name="Bootstrap records"),
        records.FeatureLevelRecord(name="metadata.version", feature_level=25),
        records.NoOpRecord(),
    ]

    async def main() -> None:
        async with metadata_log(tmp_path):
            pass
        path = log_file(tmp_path)
        whole = path.read_bytes()
        ((_, first), *_) = list(iterate_headers(whole))
        stored = [Record(value=encode_metadata_record(record), timestamp=0) for record in halves[:count]]
        half = encode_batch(stored, base_offset=first.next_offset, partition_leader_epoch=1)
        path.write_bytes(whole[: first.size_in_bytes] + bytes(half))
        for leftover in (*path.parent.glob("*index"), path.parent / RECOVERY_POINT_FILE):
            leftover.unlink()
        for _ in range(2):
            async with metadata_log(tmp_path) as log:
                assert log.image.features == FORMATTED

    run(main())


def test_an_unknown_record_prevents_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            await registered(log)
        monkeypatch.delitem(image._CHANGES, records.RegisterBrokerRecord)
        async with metadata_log(tmp_path, lead=False) as log:
            with pytest.raises(DirectoryRejected, match="RegisterBrokerRecord"):
                await lead(log)

    run(main())


def test_records_of_an_unfinished_metadata_transaction_do_not_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            await controller.create_topics([topic("kept")], validate_only=False)
            lost = [records.BeginTransactionRecord(name="x"), records.TopicRecord(name="lost")]
            await log.committed(log.append(lost))
        async with metadata_log(tmp_path) as log:
            assert set(log.image.topics) == {"kept"}

    run(main())


NAMES = st.sampled_from(["a", "b", "c", "d"])
COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("alter"), NAMES, st.integers(1, 9)),
        st.tuples(st.just("reset"), NAMES, st.just(0)),
        st.tuples(st.just("broker"), NAMES, st.integers(1, 9)),
        st.tuples(st.just("ids"), NAMES, st.just(0)),
        st.tuples(st.just("restart"), NAMES, st.just(0)),
    ),
    max_size=25,
)


async def command(log: MetadataLog, what: str, name: str, number: int) -> None:
    controller = controller_of(log) if log.image.brokers else await registered(log)
    resource = (TOPIC, name)
    if what == "create":
        requested = NewTopic(name=name, num_partitions=number, replication_factor=1, configs={"segment.ms": "9"})
        await controller.create_topics([requested], validate_only=False)
    elif what == "grow":
        await controller.create_partitions([(name, number, None)], validate_only=False)
    elif what == "delete":
        found = [log.image.topics[name]] if name in log.image.topics else []
        await controller.delete_topics(found)
    elif what == "alter":
        await controller.alter_configs([(resource, [("retention.ms", 0, str(number))])], validate_only=False)
    elif what == "reset":
        await controller.replace_configs([(resource, {})], validate_only=False)
    elif what == "broker":
        changes = [((4, ""), [("log.retention.ms", 0, str(number))])]
        await controller.alter_configs(changes, validate_only=False)
    elif what == "ids":
        await allocate_producer_ids(log, 1, 1)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=COMMANDS)
def test_replay_gives_the_image_that_was_left(
    commands: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("replay")

    async def main() -> None:
        left: MetadataImage | None = None
        rest = [*commands, ("restart", "", 0)]
        while rest:
            async with metadata_log(directory) as log:
                assert left is None or same(log.image, left)
                while rest and rest[0][0] != "restart":
                    await command(log, *rest.pop(0))
                    assert log.newest_image is log.image
                rest.pop(0)
                left = log.image
        async with metadata_log(directory) as log:
            assert left is not None
            assert same(log.image, left)

    run(main())


def test_a_long_quota_change_is_processed_in_steps(tmp_path: Path) -> None:
    async def main() -> None:
        async with metadata_log(tmp_path) as log:
            controller = await registered(log)
            wishes = [((("client-id", f"client-{number}"),), [("producer_byte_rate", 1.0)]) for number in range(300)]
            altering = asyncio.ensure_future(
                controller.alter_client_quotas(wishes, is_host=lambda _: True, validate_only=False)
            )
            turns = 0
            while len(controller.image.client_quotas) < len(wishes):
                turns += 1
                await asyncio.sleep(0)
            assert turns > len(wishes) // REQUESTS_AT_ONCE
            assert not any((await altering).values())

    run(main())
