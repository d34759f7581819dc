"""Replica moves between log directories: under load, with other work in parallel, and with events that end a move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.server.replication.replica_moves import RATE
from tests.log.faults import FaultyDisk, broken, full
from tests.log.searching import aborted_transactions
from tests.log.support import batch as transactional_batch
from tests.log.support import marker
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, fetch_request, list_offset, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

BROKER = 4
READ_COMMITTED = 1


@pytest.fixture
def config(directories: list[str]) -> dict[str, str]:
    return {
        "log.dirs": ",".join(directories),
        "metadata.log.dir": directories[1],
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "log.segment.delete.delay.ms": "0",
    }


@pytest.fixture
def broker(data_dir: Path, disk: FaultyDisk, config: dict[str, str]) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir, config, disk=disk) as running:
        yield running


def ask_to_move(client: RawClient, path: str, topic: str, *partitions: int) -> list[ErrorCode]:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=list(partitions or (0,)))]
    (result,) = client.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]), 2).results
    return [ErrorCode(each.error_code) for each in result.partitions]


def places(client: RawClient, topic: str, partition: int = 0) -> dict[str, Any]:
    """Return the replica and future replica of a partition by directory; a future log's path ends with an asterisk."""
    asked = DescribableLogDirTopic(topic=topic, partitions=[partition])
    found = {}
    for result in client.ask(DescribeLogDirsRequest(topics=[asked]), 4).results:
        for described in result.topics:
            for each in described.partitions:
                found[result.log_dir + "*" * each.is_future_key] = each
    return found


def home_and_away(client: RawClient, directories: list[str], topic: str, partition: int = 0) -> tuple[str, str]:
    (home,) = places(client, topic, partition)
    (away,) = set(directories) - {home}
    return home, away


def names_in(path: str) -> list[str]:
    return [each.name for each in Path(path).iterdir()]


def moved(client: RawClient, directories: list[str], topic: str, partition: int = 0) -> str:
    """Move a partition and return its new directory."""
    _, away = home_and_away(client, directories, topic, partition)
    assert ask_to_move(client, away, topic, partition) == [ErrorCode.NONE]
    eventually(lambda: list(places(client, topic, partition)) == [away], "it has moved")
    return away


def wait_until_assigned(broker: RunningBroker, topic: str, directory: str) -> None:
    """Wait until the controller has the directory as the location of the topic's first partition."""
    known = broker.server._node.storage.directory_ids[directory]
    images = broker.server.services
    eventually(
        lambda: images.image.topics[topic].partitions[0].directories == (known,), "the controller has the directory"
    )


def set_rate(client: RawClient, rate: int | None) -> None:
    config = IncrementalAlterConfigsAlterableConfig(name=RATE, config_operation=int(rate is None), value=str(rate or 0))
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def beginning_to_move(client: RawClient, directories: list[str]) -> tuple[str, str, str]:
    """Create a topic whose move has begun and makes little progress; return (topic, home, away)."""
    topic, _ = create_topic(client)
    for _ in range(3):
        assert produce(client, topic, batch(b"x" * 5000)).error_code == ErrorCode.NONE
    home, away = home_and_away(client, directories, topic)
    set_rate(client, 1)
    assert ask_to_move(client, away, topic) == [ErrorCode.NONE]
    eventually(lambda: places(client, topic)[away + "*"].partition_size > 0, "it has begun")
    return topic, home, away


def end_of(client: RawClient, topic: str, partition: int) -> int:
    return int(fetch(client, topic, 0, partition=partition).high_watermark)


def everything(client: RawClient, topic: str, **more: Any) -> list[bytes | None]:
    end = fetch(client, topic, 0).high_watermark
    found: list[bytes | None] = []
    while len(found) < end:
        found += values_in(fetch(client, topic, len(found), **more).records)
    return found


@pytest.mark.parametrize("flush_messages", [1, 2**63 - 1])
def test_a_move_under_load_keeps_every_record_and_offset(
    broker: RunningBroker, client: RawClient, directories: list[str], flush_messages: int
) -> None:
    topic, _ = create_topic(client, segment_bytes=1 << 20, flush_messages=flush_messages)
    sent: list[bytes] = []
    has_moved = threading.Event()

    def load() -> None:
        with broker.client() as own:
            while not has_moved.is_set():
                values = [b"%d " % (len(sent) + index) + b"v" * 500 for index in range(10)]
                answer = produce(own, topic, batch(*values))
                assert (answer.error_code, answer.base_offset) == (0, len(sent))
                sent.extend(values)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        eventually(lambda: len(sent) > 4000, "there is something to move")
        for _ in range(2):
            moved(client, directories, topic)
        size = len(sent)
        eventually(lambda: len(sent) > size, "it goes on")
    finally:
        has_moved.set()
        thread.join()
    assert everything(client, topic) == sent


def test_a_moved_replica_survives_a_restart_and_is_assigned_at_the_controller(
    data_dir: Path, disk: FaultyDisk, config: dict[str, str], directories: list[str]
) -> None:
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"a", b"b"))
        away = moved(client, directories, topic)
        produce(client, topic, batch(b"c"))
        wait_until_assigned(running, topic, away)
        assert not Path(away, f"{topic}-0", ".moved").exists()
        (gone,) = set(directories) - {away}
        eventually(lambda: not [name for name in names_in(gone) if name.startswith(topic)], "the old one is removed")
    with RunningBroker(data_dir, config, disk=disk) as running, running.client() as client:
        assert list(places(client, topic)) == [away]
        assert everything(client, topic) == [b"a", b"b", b"c"]


def test_producers_transactions_and_epochs_are_the_same_afterwards(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    topic, _ = create_topic(client)

    def reported() -> tuple[Any, ...]:
        log = broker.server.services.partitions.find(topic, 0).log
        entries = {entry.producer_id: entry for entry in log.producers.active()}
        return (
            aborted_transactions(log, 0, log.log_end_offset),
            [(key, entry.producer_epoch, list(entry.batches)) for key, entry in sorted(entries.items())],
            log.leader_epochs.entries(),
            (log.log_start_offset, log.log_end_offset, log.last_stable_offset(log.log_end_offset)),
        )

    def write() -> None:
        partition = broker.server.services.partitions.find(topic, 0)
        partition.log.update_config(replace(partition.log.config, segment_bytes=1000))
        for number in range(30):
            data = transactional_batch(
                b"%d" % number, producer_id=7, producer_epoch=0, sequence=number, transactional=True
            )
            partition.append(data, -1)
            if number % 3 == 2:
                committed = bytes(marker(7, 0, commit=number % 2 == 0))
                partition.append_marker(committed, 7, 0, transaction_version=0)
        partition.append(
            transactional_batch(b"open", producer_id=8, producer_epoch=3, sequence=0, transactional=True), -1
        )

    broker.call(write)
    before = broker.call(reported)
    assert before[0]
    committed = fetch(client, topic, 0, isolation_level=READ_COMMITTED)
    moved(client, directories, topic)
    assert broker.call(reported) == before
    again = fetch(client, topic, 0, isolation_level=READ_COMMITTED)
    assert (again.aborted_transactions, again.records[:100]) == (
        committed.aborted_transactions,
        committed.records[:100],
    )
    broker.call(
        lambda: broker.server.services.partitions.find(topic, 0).append_marker(
            bytes(marker(8, 3, commit=True)), 8, 3, transaction_version=0
        )
    )
    assert fetch(client, topic, 0).last_stable_offset == fetch(client, topic, 0).high_watermark


def test_committed_offsets_move_with_their_partition(
    data_dir: Path, config: dict[str, str], directories: list[str]
) -> None:
    def commit(client: RawClient, offset: int) -> int:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        return int(client.ask(OffsetCommitRequest(group_id="g", topics=topics), 8).topics[0].partitions[0].error_code)

    def committed(client: RawClient) -> tuple[int, int]:
        asked = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        group = client.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0]
        return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -2

    with RunningBroker(data_dir, config) as running, running.client() as client:
        create_topic(client, name="t")
        client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        eventually(lambda: commit(client, 1) == 0, "a coordinator")
        for index in range(2):
            moved(client, directories, "__consumer_offsets", index)
        assert committed(client) == (0, 1)
        assert commit(client, 2) == 0
    with RunningBroker(data_dir, config) as running, running.client() as client:
        eventually(lambda: committed(client) == (0, 2), "it is loaded")


def test_a_move_is_described_and_goes_as_fast_as_it_may(client: RawClient, directories: list[str]) -> None:
    topic, home, away = beginning_to_move(client, directories)
    found = places(client, topic)
    assert set(found) == {home, away + "*"}
    assert (found[home].offset_lag, found[away + "*"].offset_lag) == (0, 2)
    assert found[away + "*"].partition_size < found[home].partition_size
    assert ask_to_move(client, away, topic) == [ErrorCode.NONE]
    assert places(client, topic)[away + "*"].offset_lag == 2  # the same move continues
    set_rate(client, None)
    eventually(lambda: list(places(client, topic)) == [away], "it has moved")


def test_partitions_that_move_together_all_arrive(client: RawClient, directories: list[str]) -> None:
    topic, _ = create_topic(client, 6)
    for number in range(60):
        assert produce(client, topic, batch(b"x" * 30_000), partition=number % 6).error_code == ErrorCode.NONE
    for path in (*directories, directories[0]):
        assert ask_to_move(client, path, topic, *range(6)) == [ErrorCode.NONE] * 6
        for index in range(6):
            eventually(lambda: list(places(client, topic, index)) == [path], "it has moved")  # noqa: B023 it is over then
    assert [end_of(client, topic, index) for index in range(6)] == [10] * 6


def test_moving_a_replica_to_its_current_directory_cancels_the_move(client: RawClient, directories: list[str]) -> None:
    topic, home, away = beginning_to_move(client, directories)
    assert ask_to_move(client, home, topic) == [ErrorCode.NONE]
    assert list(places(client, topic)) == [home]
    eventually(lambda: not [name for name in names_in(away) if name.startswith(topic)], "the rest is removed")


def test_a_waiting_fetch_gets_what_comes_after_the_move(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    topic, _, away = beginning_to_move(client, directories)
    with broker.client() as reader:
        request = fetch_request(topic, 3, max_wait_ms=20_000)
        reader.send_bytes(reader.frame(request, 12))
        set_rate(client, None)
        eventually(lambda: list(places(client, topic)) == [away], "it has moved")
        produce(client, topic, batch(b"later"))
        answer = reader.receive(request, 12)
    assert values_in(answer.responses[0].partitions[0].records) == [b"later"]


@pytest.mark.parametrize("side", ["home", "away"])
def test_a_disk_that_fails_ends_the_move(
    client: RawClient, disk: FaultyDisk, directories: list[str], side: str
) -> None:
    topic, home, away = beginning_to_move(client, directories)
    failing = home if side == "home" else away
    disk.fail = lambda operation, path: broken(operation, path) if path.startswith(f"{failing}/{topic}") else None
    code = produce(client, topic, batch(b"x")).error_code
    set_rate(client, None)
    if side == "away":
        assert code == ErrorCode.NONE
        eventually(lambda: list(places(client, topic)) == [home], "the move has ended")
        assert values_in(fetch(client, topic, 3).records) == [b"x"]
    else:
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        eventually(lambda: not places(client, topic), "the move has ended")
    assert ask_to_move(client, failing, topic) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_full_disk_ends_only_the_move(client: RawClient, disk: FaultyDisk, directories: list[str]) -> None:
    topic, home, away = beginning_to_move(client, directories)
    disk.fail = lambda operation, path: (
        full(operation, path) if operation == "append" and path.startswith(f"{away}/{topic}") else None
    )
    set_rate(client, None)
    eventually(lambda: list(places(client, topic)) == [home], "the move has ended")
    disk.fail = lambda operation, path: None
    assert moved(client, directories, topic) == away
    assert len(everything(client, topic)) == 3


@pytest.mark.parametrize("operation", ["fsync", "rename"])
def test_a_disk_that_fails_at_the_swap_leaves_the_replica_where_it_is(
    client: RawClient, disk: FaultyDisk, directories: list[str], operation: str
) -> None:
    topic, home, away = beginning_to_move(client, directories)

    def fail(tried: str, path: str) -> Any:
        return broken(tried, path) if tried == operation and path.startswith(f"{away}/{topic}") else None

    disk.fail = fail
    set_rate(client, None)
    eventually(lambda: list(places(client, topic)) == [home], "the move has ended")
    assert produce(client, topic, batch(b"x")).error_code == ErrorCode.NONE
    assert len(everything(client, topic)) == 4


def test_a_deleted_topic_takes_its_move_along(client: RawClient, directories: list[str]) -> None:
    topic, home, away = beginning_to_move(client, directories)
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    eventually(lambda: not places(client, topic), "it is gone")
    left = [name for path in (home, away) for name in names_in(path) if name.startswith(topic)]
    assert not [name for name in left if not name.endswith("-delete")]
    create_topic(client, name=topic)
    set_rate(client, None)
    moved(client, directories, topic)


def test_clients_know_log_directories_by_their_absolute_paths(
    data_dir: Path, config: dict[str, str], directories: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir.mkdir(exist_ok=True)
    monkeypatch.chdir(data_dir)
    relative = {**config, "log.dirs": "d0,d1", "metadata.log.dir": "d1"}
    with RunningBroker(data_dir, relative) as running, running.client() as client:
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"a"))
        away = moved(client, directories, topic)
        assert list(places(client, topic)) == [away]


def test_a_move_continues_after_a_restart(data_dir: Path, config: dict[str, str], directories: list[str]) -> None:
    with RunningBroker(data_dir, config) as running, running.client() as client:
        topic, home, away = beginning_to_move(client, directories)
    assert [name for name in names_in(away) if name.endswith("-future")]
    with RunningBroker(data_dir, config) as running, running.client() as client:
        assert set(places(client, topic)) == {home, away + "*"}
        assert len(everything(client, topic)) == 3
        set_rate(client, None)
        eventually(lambda: list(places(client, topic)) == [away], "it has moved")
        assert len(everything(client, topic)) == 3
    with RunningBroker(data_dir, config) as running, running.client() as client:
        assert list(places(client, topic)) == [away], "nothing is left to go on with"


def test_the_directory_assignment_is_committed_before_the_future_log_replaces_the_log(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    topic, topic_id = create_topic(client)
    produce(client, topic, batch(b"one"))
    home, away = home_and_away(client, directories, topic)
    assignments = broker.server._replicas.moves._assignments
    reported = threading.Event()
    may_go_on = threading.Event()
    send = assignments._send

    async def send_slowly(replicas: Any) -> bool:
        if any(replica[0] == topic_id for replica in replicas):
            reported.set()
            if not may_go_on.is_set():
                return False
        return await send(replicas)

    broker.call(lambda: setattr(assignments, "_send", send_slowly))
    assert ask_to_move(client, away, topic) == [ErrorCode.NONE]
    assert reported.wait(15)
    assert set(places(client, topic)) == {home, away + "*"}, "it waits for the controller"
    produce(client, topic, batch(b"two"))
    may_go_on.set()
    eventually(lambda: list(places(client, topic)) == [away], "it has moved")
    assert len(everything(client, topic)) == 2
    reported.clear()
    may_go_on.clear()
    assert ask_to_move(client, home, topic) == [ErrorCode.NONE]
    assert reported.wait(15)
    assert ask_to_move(client, away, topic) == [ErrorCode.NONE]
    may_go_on.set()
    assert list(places(client, topic)) == [away], "the move back was taken back before the controller knew of it"
    eventually(lambda: not broker.call(lambda: dict(assignments._unconfirmed)), "the controller knows where it is")
    directory = broker.server._node.storage.directory_ids[away]
    image = broker.call(lambda: broker.server.metadata_log.image.topics[topic].partitions[0])
    assert directory in image.directories


def test_a_truncated_or_shortened_log_is_copied_as_it_is_then(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    topic, _, away = beginning_to_move(client, directories)

    def cut() -> None:
        log = broker.server.services.partitions.find(topic, 0).log
        log.truncate_to(1)
        log.append(transactional_batch(b"other", b"and", b"more"), leader_epoch=1)
        log.delete_records_before(2)

    broker.call(cut)
    set_rate(client, None)
    eventually(lambda: list(places(client, topic)) == [away], "it has moved")
    log = broker.server.services.partitions.find(topic, 0).log
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.latest_epoch) == (2, 4, 1)
    assert values_in(broker.call(lambda: log.read(2, 1000))) == [b"other", b"and", b"more"]
    assert list_offset(client, topic, -2).offset == 2


def test_a_log_that_does_not_exist_yet_is_made_where_it_was_asked_for(
    client: RawClient, directories: list[str]
) -> None:
    for number, path in enumerate([directories[1], directories[0]] * 2):
        assert ask_to_move(client, path, f"new{number}") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for number, path in enumerate([directories[1], directories[0]] * 2):
        create_topic(client, name=f"new{number}")
        assert list(places(client, f"new{number}")) == [path]


def test_a_move_to_an_unknown_directory_returns_log_dir_not_found(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert ask_to_move(client, "/elsewhere", topic) == [ErrorCode.LOG_DIR_NOT_FOUND]


def test_a_replica_that_only_other_brokers_have(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    topic, _ = create_topic(client)
    home, away = home_and_away(client, directories, topic)
    partitions = broker.server.services.partitions
    wait_until_assigned(broker, topic, home)
    kept = broker.call(lambda: partitions._by_topic[topic].pop(0))
    assert ask_to_move(client, away, topic) == [ErrorCode.REPLICA_NOT_AVAILABLE]
    broker.call(lambda: partitions._by_topic[topic].update({0: kept}))
    assert list(places(client, topic)) == [home]
