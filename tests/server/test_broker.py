"""Whole broker: data that survives kill -9, and its stop when the disk fails."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from kwire.log.checkpoints import read_offsets
from kwire.log.disk import DiskFailure, RealDisk
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.seams import WORKERS
from tests.log.faults import FaultyDisk, broken, full
from tests.support.processes import server
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, fetch, produce, values_in
from tests.support.running import SECONDS, RunningBroker
from tests.support.waiting import eventually


def set_retention(client: RawClient, topic: str, value: str) -> None:
    config = IncrementalAlterConfigsAlterableConfig(name="retention.ms", config_operation=0, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0


def test_acknowledged_topics_and_configs_survive_kill_9(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    for life in range(4):
        with server(tmp_path) as running, RawClient(running.bootstrap_server) as client:
            names = {topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics}
            assert names == set(acknowledged)
            for number in range(6):
                name = f"life-{life}-{number}"
                create_topic(client, name=name)
                set_retention(client, name, str(number))
                acknowledged[name] = str(number)
            os.kill(running.process.pid, signal.SIGKILL)
            running.process.wait()
    with RunningBroker(tmp_path) as broker:
        image = broker.call(lambda: broker.server.services.image)
        assert {name: image.config_of(2, name)["retention.ms"] for name in image.topics} == acknowledged
        assert image.epoch == 5, "each life took an epoch of its own"


def test_data_that_was_answered_survives_kill_9(tmp_path: Path) -> None:
    with server(tmp_path) as running, RawClient(running.bootstrap_server) as client:
        topic, _ = create_topic(client)
        for number in range(20):
            assert produce(client, topic, batch(b"%d" % number)).error_code == 0
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        assert values_in(fetch(client, topic).records) == [b"%d" % number for number in range(20)]


def test_a_failed_fsync_of_the_metadata_log_stops_the_broker(tmp_path: Path) -> None:
    disk = FaultyDisk()
    broker = RunningBroker(tmp_path, disk=disk)
    with broker.client() as client:
        create_topic(client)
        disk.fail = lambda operation, path: (
            broken(operation, path) if operation == "fsync" and "__cluster_metadata" in path else None
        )
        client.send_bytes(client.frame(create_request("lost"), 7))
        assert client.is_closed(), "what is not durable is never answered"
        eventually(lambda: broker.call(broker.server.failed.done), "the broker to know that it cannot go on")
    disk.fail = lambda operation, path: None
    broker.stop()


def test_a_broker_with_a_full_disk_rejects_records_and_continues(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with RunningBroker(tmp_path, disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        disk.fail = lambda operation, path: full(operation, path) if operation == "append" else None
        assert produce(client, topic, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (rejected,) = client.ask(create_request("no-room"), 7).topics
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.fail = lambda operation, path: None
        assert produce(client, topic, batch(b"b")).base_offset == 0
        create_topic(client)


def test_a_failed_log_directory_is_offline_and_described_with_an_error(tmp_path: Path) -> None:
    disk = FaultyDisk()
    broker = RunningBroker(tmp_path, disk=disk)
    with broker.client() as client:
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"a"))
        disk.fail = lambda operation, path: broken(operation, path) if operation == "append" and topic in path else None
        assert produce(client, topic, batch(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.fail = lambda operation, path: None
        assert produce(client, topic, batch(b"c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR, "nothing is retried"
        assert fetch(client, topic).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.stop()
    with RunningBroker(tmp_path) as again, again.client() as client:
        assert values_in(fetch(client, topic).records) == [b"a"]


def test_a_failed_start_releases_its_resources(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.fail = lambda operation, path: broken(operation, path) if path.endswith("quorum-state") else None
    with pytest.raises(Exception, match="quorum-state"):
        RunningBroker(tmp_path, disk=disk)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        create_topic(client)


def test_a_clean_stop_writes_the_high_watermarks(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        assert produce(client, topic, batch(b"one", b"two")).error_code == 0
    assert read_offsets(RealDisk(), str(tmp_path / "replication-offset-checkpoint")) == {(topic, 0): 2}


def test_a_broker_without_any_log_directory_stops(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker:
        failure = DiskFailure("write", "x", OSError(5, "Input/output error"))

        def lose_all_directories() -> None:
            for directory in broker.server.services.logs.directories:
                directory.failure = failure

        broker.call(lose_all_directories)
        assert eventually(lambda: broker.call(broker.server.failed.done), "the broker gives up")
        assert "every log directory is offline" in str(broker.call(broker.server.failed.result))


def test_retention_begins_after_the_initial_delay(tmp_path: Path) -> None:
    delays = {"log.initial.task.delay.ms": "2000", "log.retention.check.interval.ms": "3600000"}
    with RunningBroker(tmp_path, delays) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        assert produce(client, topic, batch(b"years old")).error_code == 0
        partition = broker.server.services.partitions.find(topic, 0)
        assert eventually(lambda: broker.call(lambda: partition.log.log_start_offset) == 1, "the old record goes")


def test_metadata_become_durable_while_a_disk_with_partitions_hangs(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        workers = broker.server.services.workers
        goes_on, begun = threading.Event(), threading.Barrier(WORKERS + 1)

        def hang() -> None:
            begun.wait(SECONDS)
            goes_on.wait(SECONDS)

        hanging = [broker.start(workers.run(hang)) for _ in range(WORKERS)]
        try:
            begun.wait(SECONDS)
            create_topic(client)
            assert not any(each.done() for each in hanging)
        finally:
            goes_on.set()
        for each in hanging:
            each.result(SECONDS)


def test_a_new_broker_waits_for_the_space_that_its_first_metadata_need(tmp_path: Path) -> None:
    disk = FaultyDisk()
    appends = 0

    def fail(operation: str, path: str) -> DiskFailure | None:
        nonlocal appends
        if operation != "append" or "__cluster_metadata" not in path:
            return None
        appends += 1
        return full(operation, path) if 2 <= appends <= 4 else None  # the leader's first append succeeds

    disk.fail = fail
    with RunningBroker(tmp_path, disk=disk) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        assert produce(client, topic, batch(b"a")).error_code == ErrorCode.NONE
    assert appends > 4
