"""Current kwire on data directories of earlier versions (make_kept): the same records, alone and in a cluster."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.ports import HOST, free_ports
from kwire.cluster.directory import load_meta_properties
from kwire.log.disk import RealDisk
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.seams import SystemClock, SystemRandomSource
from kwire.server.node.formation import FormatOptions, format_storage
from kwire.server.settings.config import load_config
from tests.support.processes import server
from tests.support.raw_client import RawClient
from tests.support.requests import batch, fetch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

KEPT = Path(__file__).with_name("kept")
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in KEPT.glob("*.tar.xz"))
TOPIC, COMPACTED, TRANSACTIONAL, GROUP = "kept", "kept-compacted", "kept-transactional", "kept-group"
FOR_EVER = {"offsets.retention.minutes": str((1 << 31) - 1)}
"""Retention without limit, because the group's commits grow old."""


@pytest.fixture(params=NAMES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a stored directory and its expected contents."""
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # missing in Debian 12's Python
        archive.extractall(tmp_path)
    return tmp_path / "data", json.loads((KEPT / f"{request.param}.json").read_text())


def test_there_is_a_kept_directory_of_each_stage() -> None:
    assert NAMES == ["administration", "durable-log", "first-broker", "quorum", "transactions"]


def texts(client: RawClient, topic: str, index: int = 0) -> list[str]:
    found = values_in(fetch(client, topic, partition=index).records)
    return [value.decode() for value in found if value is not None]


def assert_is_all_there(client: RawClient, written: dict[str, Any]) -> None:
    for index, values in enumerate(written["values"]):
        assert texts(client, TOPIC, index)[: len(values)] == values


def committed(client: RawClient) -> int:
    """Return the group's offset; its coordinator may still be loading."""
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4).coordinators
    assert [each.error_code for each in found] == [0]
    wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])])

    def offset() -> int:
        (group,) = client.ask(request, 8).groups
        return group.topics[0].partitions[0].committed_offset if not group.error_code else -1

    return eventually(lambda: max(0, offset()), "the committed offset")


def test_kept_data_is_served_and_accepts_new_records(kept: tuple[Path, dict[str, Any]]) -> None:
    directory, written = kept
    for again in range(2):
        with RunningBroker(directory, FOR_EVER) as broker, RawClient(broker.bootstrap_server) as client:
            assert_is_all_there(client, written)
            assert committed(client) == written["committed"]
            assert sorted(texts(client, COMPACTED)[-5:]) == sorted(written["compacted"].values())
            if written["transactional"] is not None:
                assert_transactions(client, written["transactional"])
            assert produce(client, TOPIC, batch(b"later")).base_offset == len(written["values"][0]) + again
            assert texts(client, TOPIC)[-1] == "later"


def assert_transactions(client: RawClient, values: list[str]) -> None:
    found = fetch(client, TRANSACTIONAL, isolation_level=1)
    data = [value for value in values_in(found.records) if value is not None and value.startswith(b"transaction ")]
    assert set(values) < {value.decode() for value in data}
    assert len(found.aborted_transactions) == 1
    assert found.last_stable_offset == found.high_watermark


class Pair:
    """A node on a stored directory, with a controller reachable by others, and a new broker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.controller_port = free_ports(2)
        self.common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def first(self) -> dict[str, str]:
        return self.common | {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "log.dirs": str(self.directory),
        }

    def second(self) -> dict[str, str]:
        settings = self.common | {
            "node.id": "2",
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{HOST}:0",
            "log.dirs": str(self.directory.with_name("second")),
        }
        meta = load_meta_properties(RealDisk(), str(self.directory))
        assert meta is not None
        format_storage(
            load_config("\n".join(f"{key}={value}" for key, value in settings.items())),
            FormatOptions(cluster_id=meta.cluster_id),
            disk=RealDisk(),
            random_source=SystemRandomSource(),
            clock=SystemClock(),
            say=lambda _: None,
        )
        return settings


@contextmanager
def started(settings: dict[str, str]) -> Iterator[str]:
    """Start a node with these settings and yield its address."""
    own = {key.replace(".", "_"): value for key, value in settings.items()}
    with server(Path(settings["log.dirs"]), **own) as process:
        yield process.bootstrap_server


def state_of(client: RawClient) -> tuple[int, set[int], set[int]]:
    """Return (leader, replicas, in-sync replicas) of the first partition."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    (topic,) = client.ask(request, 12).topics
    partition = min(topic.partitions, key=lambda each: each.partition_index)
    return partition.leader_id, set(partition.replica_nodes), set(partition.isr_nodes)


def place(client: RawClient, replicas: list[int]) -> None:
    wanted = ReassignableTopic(
        name=TOPIC, partitions=[ReassignablePartition(partition_index=index, replicas=replicas) for index in (0, 1)]
    )
    answer = client.ask(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000), 0)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0, 0]


def test_a_kept_directory_joins_a_cluster(kept: tuple[Path, dict[str, Any]]) -> None:
    """Partitions of the old node are copied to a new broker, written with both in sync, and moved there."""
    pair = Pair(kept[0])
    with (
        started(pair.first()) as first,
        started(pair.second()) as second,
        RawClient(first) as client,
        RawClient(second) as other,
    ):
        place(client, [1, 2])
        eventually(lambda: state_of(client)[1:] == ({1, 2}, {1, 2}), "both are in sync")
        assert produce(client, TOPIC, batch(b"on both"), acks=-1).error_code == 0
        place(client, [2])
        eventually(partial(_has_moved, other), "the new broker leads alone")
        assert_is_all_there(other, kept[1])
        assert texts(other, TOPIC)[-1] == "on both"


def _has_moved(client: RawClient) -> bool:
    return state_of(client) == (2, {2}, {2})
