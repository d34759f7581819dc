"""Setting cordoned.log.dirs: log directories that get no new replicas (KIP-1066)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

BROKER = 4
SLOW = {"broker.heartbeat.interval.ms": "100000000", "broker.session.timeout.ms": "200000000"}
"""Heartbeats only on changes, because the interval is very long."""


@pytest.fixture
def directories(data_dir: Path) -> list[str]:
    return [str(data_dir / name) for name in ("d0", "d1", "d2")]


@pytest.fixture
def config(directories: list[str]) -> dict[str, str]:
    return {"log.dirs": ",".join(directories), **SLOW}


@pytest.fixture
def broker(data_dir: Path, config: dict[str, str]) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir, config) as running:
        yield running


def cordon(client: RawClient, *paths: str) -> ErrorCode:
    config = IncrementalAlterConfigsAlterableConfig(name="cordoned.log.dirs", config_operation=0, value=",".join(paths))
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return ErrorCode(answer.error_code)


def cordoned(client: RawClient) -> list[str]:
    """Return the cordoned directories in the broker's response."""
    return [each.log_dir for each in client.ask(DescribeLogDirsRequest(topics=None), 5).results if each.is_cordoned]


def reported(broker: RunningBroker) -> set[str]:
    """Return the cordoned directories in the controller's registration."""
    ids = {identity: path for path, identity in broker.server._node.storage.directory_ids.items()}
    return {ids[each] for each in broker.server.services.image.brokers[1].cordoned_directories}


def used(client: RawClient) -> set[str]:
    """Return the directories with replicas."""
    return {each.log_dir for each in client.ask(DescribeLogDirsRequest(topics=None), 5).results if each.topics}


def test_cordoned_directories_are_sent_at_once(
    broker: RunningBroker, client: RawClient, directories: list[str]
) -> None:
    assert cordoned(client) == []
    assert cordon(client, directories[1]) is ErrorCode.NONE
    eventually(lambda: reported(broker) == {directories[1]}, "one is cordoned")
    assert cordoned(client) == [directories[1]]
    assert cordon(client, "*") is ErrorCode.NONE
    eventually(lambda: reported(broker) == set(directories), "all are cordoned")
    assert cordon(client, "") is ErrorCode.NONE
    eventually(lambda: reported(broker) == set(), "none is cordoned")
    assert cordoned(client) == []


def test_new_replicas_go_elsewhere(broker: RunningBroker, client: RawClient, directories: list[str]) -> None:
    assert cordon(client, directories[0], directories[2]) is ErrorCode.NONE
    topic, _ = create_topic(client, 4)
    assert used(client) == {directories[1]}
    assert produce(client, topic, batch(b"v")).error_code == ErrorCode.NONE
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    moves = [AlterReplicaLogDir(path=directories[0], topics=topics)]
    (result,) = client.ask(AlterReplicaLogDirsRequest(dirs=moves), 2).results
    assert result.partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_broker_with_all_cordoned_gets_no_replica(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert cordon(client, "*") is ErrorCode.NONE
    eventually(lambda: len(reported(broker)) == 3, "all are cordoned")
    (rejected,) = client.ask(create_request("later"), 7).topics
    assert rejected.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert produce(client, topic, batch(b"v")).error_code == ErrorCode.NONE


def test_the_setting_names_directories_of_the_broker(client: RawClient) -> None:
    assert cordon(client, "/elsewhere") is ErrorCode.INVALID_REQUEST
    assert cordoned(client) == []


def test_cordoned_log_dirs_can_be_set_at_startup(
    data_dir: Path, config: dict[str, str], directories: list[str]
) -> None:
    with RunningBroker(data_dir, config | {"cordoned.log.dirs": directories[2]}) as broker, broker.client() as client:
        assert cordoned(client) == [directories[2]]
        eventually(lambda: reported(broker) == {directories[2]}, "one is cordoned")


def test_a_directory_is_cordoned_by_the_name_that_the_settings_give_it(
    data_dir: Path, directories: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir.mkdir(exist_ok=True)
    monkeypatch.chdir(data_dir)
    config = {**SLOW, "log.dirs": "d0/,d1", "cordoned.log.dirs": "d0/"}
    with RunningBroker(data_dir, config) as running:
        cordoned = running.call(
            lambda: [each.path for each in running.server._replicas.logs.directories if each.is_cordoned]
        )
    assert cordoned == directories[:1]


def test_a_relative_log_directory_is_unknown_without_a_current_directory(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with RunningBroker(data_dir) as running, running.client() as client:
        topic, _ = create_topic(client)
        monkeypatch.chdir(gone)
        gone.rmdir()
        moved = AlterReplicaLogDirTopic(name=topic, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="d1", topics=[moved])])
        (result,) = client.ask(request, 2).results
        monkeypatch.undo()
    assert [each.error_code for each in result.partitions] == [ErrorCode.LOG_DIR_NOT_FOUND]
