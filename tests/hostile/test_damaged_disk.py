"""Damage on disk: only the damaged data is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.protocol.error_codes import ErrorCode
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce, values_in
from tests.support.running import RunningBroker

METADATA = "__cluster_metadata-0"
LOG = "00000000000000000000.log"


def stop_with_two_topics(directory: Path) -> None:
    with RunningBroker(directory) as broker, broker.client() as client:
        for name in ("sound", "hurt"):
            create_topic(client, name=name)
            assert produce(client, name, batch(name.encode())).error_code == 0


def test_an_emptied_metadata_log_is_rejected(tmp_path: Path) -> None:
    stop_with_two_topics(tmp_path)
    (tmp_path / METADATA / LOG).write_bytes(b"")
    with pytest.raises(DirectoryRejected, match="before its recovery point"):
        RunningBroker(tmp_path)
    assert (tmp_path / "sound-0" / LOG).stat().st_size > 0


def test_a_lost_metadata_log_costs_no_records(tmp_path: Path) -> None:
    stop_with_two_topics(tmp_path)
    before = (tmp_path / "sound-0" / LOG).read_bytes()
    shutil.rmtree(tmp_path / METADATA)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        create_topic(client, name="sound")
        assert values_in(fetch(client, "sound").records) == []
        logs = broker.server._replicas.logs
        broker.call(lambda: logs.directories.remove_files(logs.directories.take_due_files()))
    (stray,) = tmp_path.glob("sound-0.*-stray")
    assert (stray / LOG).read_bytes() == before
    with RunningBroker(tmp_path):
        assert stray.exists()


def test_a_log_that_cannot_be_opened_does_not_affect_others(tmp_path: Path) -> None:
    stop_with_two_topics(tmp_path)
    path = tmp_path / "hurt-0" / LOG
    os.truncate(path, path.stat().st_size - 7)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        assert values_in(fetch(client, "sound").records) == [b"sound"]
        answer = client.ask(fetch_request("hurt"), 12).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(client, "hurt", batch(b"more")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
