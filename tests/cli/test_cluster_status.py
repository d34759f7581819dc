"""`kwire cluster status`: of one broker, of three, with one of them gone, and when there is nobody."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kwire.cli import main
from kwire.cli.cluster_status import Broker, ClusterStatus, Partition, Quorum, Voter
from kwire.cli.status_shown import SHOWN_MAX, as_lines, as_object
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.running_cluster import RunningCluster, started
from tests.support.waiting import eventually

BROKER = Broker(
    broker_id=1,
    address="localhost:9092",
    rack=None,
    is_fenced=False,
    trouble=None,
    partitions=2,
    leads=1,
    lag_sum=0,
    lag_max=0,
)
LEADER = Voter(node_id=1, address="localhost:9093", is_leader=True, lag=0, silent_ms=0)
FOLLOWER = Voter(node_id=2, address=None, is_leader=False, lag=7, silent_ms=300)
QUORUM = Quorum(leader_id=1, leader_epoch=4, high_watermark=99, voters=(LEADER, FOLLOWER), observers=0)
STATUS = ClusterStatus(
    cluster_id="c", brokers=(BROKER,), quorum=QUORUM, topics=1, partitions=2, replicas=4, unhealthy=()
)
PARTITION = Partition(
    topic="t", index=0, leader=1, replicas=(1, 2, 3), in_sync=(1, 3), in_sync_min=2, lags=(0, None, 5)
)


def text(status: ClusterStatus) -> str:
    return click.unstyle("\n".join(as_lines(status)))


def status(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "status", *arguments])


def told(servers: str) -> dict[str, Any]:
    """What --format json says; the exit status says the same."""
    ended = status("--bootstrap-server", servers, "--format", "json")
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.exit_code == (0 if found["healthy"] else 1), ended.output
    return found


def test_a_broker_alone_is_healthy(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"broker.rack": "here"}) as broker:
        with RawClient(broker.bootstrap_server) as client:
            create_topic(client, 3, name="t", min_insync_replicas=2)
        found = told(broker.bootstrap_server)
        shown = status("--bootstrap-server", f"127.0.0.1:1,{broker.bootstrap_server}")
    assert shown.exit_code == 0
    assert "healthy" in shown.output.splitlines()[0]
    assert found["healthy"]
    assert found["brokers"] == [
        {
            "broker_id": 1,
            "address": broker.bootstrap_server,
            "rack": "here",
            "is_fenced": False,
            "trouble": None,
            "partitions": 3,
            "leads": 3,
            "lag_sum": 0,
            "lag_max": 0,
        }
    ]
    assert [voter["is_leader"] for voter in found["quorum"]["voters"]] == [True]
    assert (found["topics"], found["partitions"], found["replicas"]) == (1, 3, 3)


def test_a_broker_that_is_killed_is_missed_and_awaited(tmp_path: Path) -> None:
    quick = ("--override", "broker.session.timeout.ms=2000", "--override", "broker.heartbeat.interval.ms=500")
    with started(tmp_path / "data", *quick) as running:
        servers = ",".join(running.addresses)
        with RawClient(running.addresses[0]) as client:
            topic, _ = create_topic(client, 1, replicas=3)
        eventually(lambda: told(servers)["healthy"], "the new cluster is healthy")
        write(running, told(servers), topic)
        # Followers tell where their logs end, too.
        eventually(lambda: [each["lag_sum"] for each in told(servers)["brokers"]] == [0, 0, 0], "none is behind")
        os.kill(running.node_ids()["broker-3"], signal.SIGKILL)
        eventually(lambda: told(servers)["brokers"][2]["trouble"] == "connection refused", "nobody is there")
        assert not told(servers)["healthy"]
        eventually(lambda: told(servers)["under_replicated"] == 1, "it is out of sync")
        found = told(servers)
        assert [each["is_fenced"] for each in found["brokers"]] == [False, False, True]
        (partition,) = found["unhealthy_partitions"]
        assert partition["missing"] == [3]
        assert partition["states"] == ["under-replicated"]
        assert (found["offline"], found["under_min_isr"]) == (0, 0)
        assert running.end(signal.SIGTERM) == 0


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A shell lets what it runs in the background ignore Ctrl-C, and so would do all that is started from there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_it_goes_on_looking_when_the_cluster_is_gone(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker:
        command = ["status", "--bootstrap-server", broker.bootstrap_server, "--format", "json", "--watch"]
        looking = subprocess.Popen(
            [sys.executable, "-m", "kwire", "cluster", *command, "--interval", "0.1"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert looking.stdout is not None
            assert json.loads(looking.stdout.readline())["healthy"]
            broker.stop()
            found = next(found for found in map(json.loads, looking.stdout) if not found["healthy"])
            assert found["error"].startswith("no broker answers") or found["brokers"]
            looking.send_signal(signal.SIGINT)
            assert looking.wait(15) == 0
        finally:
            looking.kill()
            looking.communicate()


def write(running: RunningCluster, found: dict[str, Any], topic: str) -> None:
    leads = next(each["broker_id"] for each in found["brokers"] if each["leads"])
    with RawClient(running.addresses[leads - 1]) as client:
        assert produce(client, topic, batch(b"one", b"two")).error_code == 0


def test_nobody_to_ask_is_one_line() -> None:
    ended = status("--bootstrap-server", "127.0.0.1:1")
    assert ended.exit_code == 2
    assert ended.stderr == "kwire: no broker answers: 127.0.0.1:1: connection refused\n"
    assert ended.stdout == ""


@pytest.mark.parametrize("server", ["", "nope:x", ":9092", "host:0", "host:70000", "a:1,,b:2", "::1", "[::1", "[]:1"])
def test_what_is_no_address_is_refused(server: str) -> None:
    ended = status("--bootstrap-server", server)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("kwire: --bootstrap-server ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--timeout", "--interval"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "-1"])
def test_what_is_no_number_of_seconds_is_refused(option: str, seconds: str) -> None:
    ended = status("--bootstrap-server", "127.0.0.1:1", option, seconds)
    assert ended.exit_code == 2
    assert ended.stderr.splitlines()[-1].startswith(f"Error: Invalid value for '{option}': {seconds}")


def test_a_name_that_cannot_be_looked_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    ended = status("--bootstrap-server", "nobody")
    assert ended.exit_code == 2
    why = "its name cannot be looked up (name or service not known)"
    assert ended.stderr == f"kwire: no broker answers: nobody:9092: {why}\n"


def test_what_can_be_no_name_is_told() -> None:
    ended = status("--bootstrap-server", "a..b")
    assert ended.exit_code == 2
    assert ended.stderr == "kwire: no broker answers: a..b:9092: it is no name that could be looked up\n"


def test_ipv6_addresses_are_in_brackets(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap_server.startswith("[::1]:")
        (shown,) = told(broker.bootstrap_server)["brokers"]
    assert shown["address"] == broker.bootstrap_server
    ended = status("--bootstrap-server", "[::1]:1")
    assert ended.stderr == "kwire: no broker answers: [::1]:1: connection refused\n"


def test_a_healthy_cluster_is_shown_in_three_parts() -> None:
    assert text(STATUS).splitlines() == [
        "cluster c: healthy",
        "",
        "broker   address          rack   state   leads   replicas   lag   worst",
        "1        localhost:9092   -      up      1       2          0     0",
        "",
        "controllers: 1 leads epoch 4, 99 metadata records committed, 0 observers",
        "voter   address          state     lag",
        "1       localhost:9093   leads     0",
        "2       -                follows   7",
        "",
        "1 topic, 2 partitions, 4 replicas: 0 offline, 0 under-min-isr, 0 under-replicated",
    ]


def test_partitions_in_trouble_are_listed_with_who_is_missing() -> None:
    alone = replace(PARTITION, index=1, in_sync=(1,))
    lost = replace(PARTITION, index=2, leader=-1, in_sync=(3,), lags=(None, None, None))
    lines = text(replace(STATUS, unhealthy=(PARTITION, alone, lost))).splitlines()
    assert lines[0] == "cluster c: not healthy"
    assert [" | ".join(line.split()) for line in lines[-4:]] == [
        "partition | leader | replicas | in | sync | missing | state",
        "t-2 | - | 1,2,3 | 3 | 1 | (lag | ?), | 2 | (lag | ?) | offline, | under-replicated",
        "t-1 | 1 | 1,2,3 | 1 | 2 | (lag | ?), | 3 | (lag | 5) | under-min-isr, | under-replicated",
        "t-0 | 1 | 1,2,3 | 1,3 | 2 | (lag | ?) | under-replicated",
    ]


def test_what_users_named_is_listed_before_internal_topics() -> None:
    internal = replace(PARTITION, topic="__consumer_offsets")
    lines = text(replace(STATUS, unhealthy=(internal, PARTITION))).splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["t-0", "__consumer_offsets-0"]


def test_many_partitions_are_cut_short_for_people_only() -> None:
    many = replace(STATUS, unhealthy=tuple(replace(PARTITION, index=index) for index in range(SHOWN_MAX + 7)))
    assert text(many).splitlines()[-1] == "... and 7 more"
    assert len(as_object(many)["unhealthy_partitions"]) == SHOWN_MAX + 7


def test_fewer_replicas_than_the_minimum_are_enough_when_all_are_in_sync() -> None:
    one = replace(PARTITION, replicas=(1,), in_sync=(1,), lags=(0,))
    assert one.is_healthy
    assert replace(one, in_sync=()).states == ("under-min-isr", "under-replicated")


@pytest.mark.parametrize(
    "changed",
    [
        replace(STATUS, brokers=(replace(BROKER, is_fenced=True),)),
        replace(STATUS, brokers=(replace(BROKER, trouble="connection refused", lag_sum=None, lag_max=None),)),
        replace(STATUS, quorum=replace(QUORUM, leader_id=-1)),
        replace(STATUS, quorum=replace(QUORUM, trouble="no controller answers", voters=())),
        replace(STATUS, quorum=replace(QUORUM, voters=(LEADER, replace(FOLLOWER, silent_ms=60_000)))),
        replace(STATUS, quorum=replace(QUORUM, voters=(LEADER, replace(FOLLOWER, silent_ms=None, lag=None)))),
    ],
)
def test_what_is_not_healthy(changed: ClusterStatus) -> None:
    assert not changed.is_healthy
    assert text(changed).startswith("cluster c: not healthy")
    assert not as_object(changed)["healthy"]


def test_what_others_named_cannot_steer_the_terminal() -> None:
    assert "\033" not in text(replace(STATUS, brokers=(replace(BROKER, rack="\033[2J"),)))
