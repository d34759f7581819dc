"""The command `kwire cluster start` with real nodes: signals, a killed node, and leftovers if it is killed itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.processes import SECONDS, ServerProcess, command, shadow_modules
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, fetch, produce, values_in
from tests.support.running_cluster import RunningCluster, started
from tests.support.waiting import eventually


def test_a_killed_node_is_printed_and_can_be_restarted_by_hand(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--brokers", "0", "--controllers", "3") as running:
        nodes = running.node_ids()
        assert sorted(nodes) == ["controller-1", "controller-2", "controller-3"]
        os.kill(nodes["controller-2"], signal.SIGKILL)
        reported = running.wait_for("controller-2 was ended by SIGKILL; the others go on")
        file = running.data / "controller-2.properties"
        assert reported.endswith(f"kwire server {file}")
        by_hand = subprocess.Popen(command(str(file)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert ServerProcess(by_hand).bootstrap_server == running.addresses[1]
        finally:
            by_hand.terminate()
            by_hand.communicate(timeout=SECONDS)
        assert by_hand.returncode == 0
        assert running.end(signal.SIGINT) == 0
        assert "kwire: all nodes have stopped\n" in running.said
        assert not running.node_ids()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_no_node_survives_the_command(tmp_path: Path, number: int) -> None:
    with started(tmp_path / "data", "--brokers", "1") as running:
        assert list(running.node_ids()) == ["broker-1"]
        assert running.end(number) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
        eventually(lambda: not running.node_ids(), "no node is left")
    assert (tmp_path / "data" / "broker-1" / ".kafka_cleanshutdown").is_file()


def test_files_of_the_directory_that_it_is_started_in_stand_for_no_modules(tmp_path: Path) -> None:
    shadow_modules(tmp_path)
    with started(tmp_path / "data", "--brokers", "1", cwd=tmp_path) as running:
        assert running.end(signal.SIGTERM) == 0


PARTITIONS = 6
BROKERS = {1, 2, 3}


def leaders(address: str, topic: str) -> list[int]:
    """Return the leader of each partition in this broker's metadata; -1 for none."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with RawClient(address) as client:
        (found,) = client.ask(request, 12).topics
    return [each.leader_id for each in sorted(found.partitions, key=lambda each: each.partition_index)]


def wait_until(addresses: list[str], topic: str, holds: Callable[[list[int]], bool], what: str) -> None:
    """Wait until the condition holds for the leaders in the metadata of each of these brokers."""
    for address in addresses:
        eventually(partial(lambda asked: holds(leaders(asked, topic)), address), what)


def write_and_read_back(cluster: RunningCluster, topic: str, partition: int, leader: int, value: bytes) -> None:
    with RawClient(cluster.addresses[leader - 1]) as client:
        answer = produce(client, topic, batch(value), partition=partition)
        assert answer.error_code == 0
        assert value in values_in(fetch(client, topic, partition=partition).records)


def test_topics_are_spread_and_served_and_a_killed_broker_takes_only_its_own_along(tmp_path: Path) -> None:
    quick = ("--override", "broker.session.timeout.ms=2000", "--override", "broker.heartbeat.interval.ms=500")
    with started(tmp_path / "data", *quick) as running:
        with RawClient(running.addresses[0]) as client:
            topic, _ = create_topic(client, PARTITIONS)
        wait_until(running.addresses, topic, lambda led: set(led) == BROKERS, "each broker leads and knows it")
        led = leaders(running.addresses[0], topic)
        for partition, leader in enumerate(led):
            write_and_read_back(running, topic, partition, leader, b"before")
        os.kill(running.node_ids()["broker-3"], signal.SIGKILL)
        running.wait_for("broker-3 was ended by SIGKILL; the others go on")
        for partition, leader in enumerate(led):
            if leader != 3:
                write_and_read_back(running, topic, partition, leader, b"after")
        lost = [-1 if leader == 3 else leader for leader in led]
        wait_until(running.addresses[:2], topic, lambda led: led == lost, "the killed one leads nothing")
        with RawClient(running.addresses[1]) as client:
            (created,) = client.ask(create_request("later", 2), 7).topics
            assert created.error_code == 0, created
        wait_until(running.addresses[:2], "later", lambda led: set(led) == {1, 2}, "those that live lead a new topic")
        for partition, leader in enumerate(leaders(running.addresses[0], "later")):
            write_and_read_back(running, "later", partition, leader, b"later")
        assert running.end(signal.SIGTERM) == 0
        assert running.said[-1] == "kwire: all nodes have stopped\n"
    assert not [line for line in running.said if "without confirmation" in line]
    with started(tmp_path / "data") as running:
        wait_until(running.addresses, topic, lambda again: again == led, "all lead again what they led")
        for partition, leader in enumerate(led):
            with RawClient(running.addresses[leader - 1]) as client:
                expected = [b"before"] if leader == 3 else [b"before", b"after"]
                assert values_in(fetch(client, topic, partition=partition).records) == expected
        assert running.end(signal.SIGINT) == 0


def serves(client: RawClient, topic: str, partition: int, value: bytes) -> bool:
    """Return True if the record can be read, perhaps only after replicas are in sync again."""
    return values_in(fetch(client, topic, partition=partition).records) == [value]


STOP_SECONDS_MAX = 8.0
"""Time limit, many times the usual one; without an order of the nodes, a stop takes 8 s and more."""


def test_a_cluster_of_replicated_topics_stops_soon_and_cleanly(tmp_path: Path) -> None:
    with started(tmp_path / "data") as running:
        assert len(running.addresses) == len(BROKERS), running.said
        with RawClient(running.addresses[0]) as client:
            topic, _ = create_topic(client, PARTITIONS, replicas=3)
        wait_until(running.addresses, topic, lambda led: set(led) == BROKERS, "each broker leads and knows it")
        for partition, leader in enumerate(leaders(running.addresses[0], topic)):
            write_and_read_back(running, topic, partition, leader, b"kept")
        began = time.monotonic()
        assert running.end(signal.SIGINT) == 0
        assert time.monotonic() - began < STOP_SECONDS_MAX
    assert running.said[-1] == "kwire: all nodes have stopped\n"
    assert not [line for line in running.said if "without confirmation" in line]
    for broker in BROKERS:
        assert (tmp_path / "data" / f"broker-{broker}" / ".kafka_cleanshutdown").is_file()
    with started(tmp_path / "data") as running:
        wait_until(running.addresses, topic, lambda led: -1 not in led, "each partition has a leader again")
        for partition, leader in enumerate(leaders(running.addresses[0], topic)):
            with RawClient(running.addresses[leader - 1]) as client:
                eventually(partial(serves, client, topic, partition, b"kept"), "what was written is served")
        assert running.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("where", ["a loop of links", "a directory that was deleted"])
def test_an_unusable_data_path_is_an_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    data = "loop" if where == "a loop of links" else "data"
    script = f'cd {tmp_path} && {"mkdir gone && cd gone && rmdir ../gone && " if data == "data" else ""}exec "$@"'
    begin = [sys.executable, "-m", "kwire", "cluster", "start", "--brokers", "1", "--port", "0", "--data", data]
    ended = subprocess.run(["sh", "-c", script, "sh", *begin], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert ended.stderr.startswith("kwire: ")
    assert ended.stderr.count("\n") == 1
