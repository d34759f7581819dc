"""The command `kwire cluster status`: one broker, three brokers, a stopped broker, and no broker."""

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
from kwire.cli.cluster_status import UNREACHABLE, Broker, ClusterStatus, Directory, Partition, Quorum, Voter
from kwire.cli.status_shown import SHOWN_MAX, as_lines, as_object
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce
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
    cluster_id="c",
    asked_broker="localhost:9092",
    metadata_age_ms=20,
    brokers=(BROKER,),
    quorum=QUORUM,
    topics=1,
    partitions=2,
    replicas=4,
    unhealthy=(),
)
SOUND = Directory(path="/data", error=None, usable_bytes=1 << 30)
PARTITION = Partition(
    topic="t", index=0, leader=1, replicas=(1, 2, 3), in_sync=(1, 3), in_sync_min=2, lags=(0, None, 5)
)
WHOLE = replace(PARTITION, in_sync=(1, 2, 3), lags=(0, 0, 0))


def text(status: ClusterStatus) -> str:
    return click.unstyle("\n".join(as_lines(status)))


def status(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "status", *arguments])


def reported(servers: str) -> dict[str, Any]:
    """Return the output of --format json; check that the exit status agrees."""
    ended = status("--bootstrap-server", servers, "--format", "json")
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.exit_code == (0 if found["healthy"] else 1), ended.output
    return found


def test_a_broker_alone_is_healthy(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"broker.rack": "here"}) as broker:
        with RawClient(broker.bootstrap_server) as client:
            create_topic(client, 3, name="t", min_insync_replicas=2)
        found = reported(broker.bootstrap_server)
        shown = status("--bootstrap-server", f"127.0.0.1:1,{broker.bootstrap_server}")
    assert shown.exit_code == 0
    assert "healthy" in shown.output.splitlines()[0]
    assert found["healthy"]
    (directory,) = found["brokers"][0].pop("directories")
    assert directory.pop("usable_bytes") > 0
    assert directory == {"path": str(tmp_path), "error": None}
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


def test_status_reports_a_killed_broker_until_it_is_back(tmp_path: Path) -> None:
    quick = ("--override", "broker.session.timeout.ms=2000", "--override", "broker.heartbeat.interval.ms=500")
    with started(tmp_path / "data", *quick) as running:
        servers = ",".join(running.addresses)
        with RawClient(running.addresses[0]) as client:
            topic, _ = create_topic(client, 1, replicas=3)
        eventually(lambda: reported(servers)["healthy"], "the new cluster is healthy")
        write(running, reported(servers), topic)
        # Followers report their log ends, too.
        eventually(lambda: [each["lag_sum"] for each in reported(servers)["brokers"]] == [0, 0, 0], "none is behind")
        os.kill(running.node_ids()["broker-3"], signal.SIGKILL)
        eventually(
            lambda: reported(servers)["brokers"][2]["trouble"] == "connection refused", "the broker does not listen"
        )
        assert not reported(servers)["healthy"]
        eventually(lambda: reported(servers)["under_replicated"] == 1, "it is out of sync")
        found = reported(servers)
        assert [each["is_fenced"] for each in found["brokers"]] == [False, False, True]
        (partition,) = found["unhealthy_partitions"]
        assert partition["missing"] == [3]
        assert partition["states"] == ["under-replicated"]
        assert (found["offline"], found["under_min_isr"]) == (0, 0)
        assert running.end(signal.SIGTERM) == 0


def test_a_damaged_log_without_another_replica_is_not_served(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, RawClient(broker.bootstrap_server) as client:
        topic, _ = create_topic(client, 1, name="t")
        assert produce(client, topic, batch(b"one", b"two")).error_code == 0
        assert reported(broker.bootstrap_server)["healthy"]
    (segment,) = tmp_path.glob("**/t-0/*.log")
    with segment.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with RunningBroker(tmp_path) as broker:
        with RawClient(broker.bootstrap_server) as client:
            fetch(client, topic, 0)
        found = reported(broker.bootstrap_server)
    assert (found["healthy"], found["offline"] + found["unserved"]) == (False, 1)
    (partition,) = found["unhealthy_partitions"]
    assert partition["failed"] == [1]


def test_a_broker_without_controllers_reports_the_age_of_its_metadata(tmp_path: Path) -> None:
    with started(tmp_path / "data") as running:
        servers = running.addresses[0]
        with RawClient(servers) as client:
            create_topic(client, 3, name="t", replicas=1)
        eventually(lambda: reported(servers)["healthy"], "the new cluster is healthy")
        for name in ("broker-2", "broker-3"):
            os.kill(running.node_ids()[name], signal.SIGKILL)
        eventually(
            lambda: "this node's metadata are" in (reported(servers)["quorum"]["trouble"] or ""),
            "the broker says that no controller is active",
        )
        found = reported(servers)
        assert [each["trouble"] for each in found["brokers"]] == [None, "connection refused", "connection refused"]
        assert (found["healthy"], found["offline"], found["unserved"]) == (False, 0, 2)
        shown = status("--bootstrap-server", servers).output
        assert f"as the broker at {servers} knows them; without a controller" in shown
        assert shown.count("unreachable (connection refused)") == 2
        assert running.end(signal.SIGTERM) == 0


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A shell makes its background processes ignore Ctrl-C, and their child processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_watching_continues_when_the_cluster_is_gone(tmp_path: Path) -> None:
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


def test_a_refused_connection_is_a_one_line_error() -> None:
    ended = status("--bootstrap-server", "127.0.0.1:1")
    assert ended.exit_code == 2
    assert ended.stderr == "kwire: no broker answers: 127.0.0.1:1: connection refused\n"
    assert ended.stdout == ""


@pytest.mark.parametrize("server", ["", "nope:x", ":9092", "host:0", "host:70000", "a:1,,b:2", "::1", "[::1", "[]:1"])
def test_an_invalid_address_is_rejected(server: str) -> None:
    ended = status("--bootstrap-server", server)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("kwire: --bootstrap-server ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--timeout", "--interval"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "-1"])
def test_an_invalid_number_of_seconds_is_rejected(option: str, seconds: str) -> None:
    ended = status("--bootstrap-server", "127.0.0.1:1", option, seconds)
    assert ended.exit_code == 2
    assert ended.stderr.splitlines()[-1].startswith(f"Error: Invalid value for '{option}': {seconds}")


def test_an_unresolvable_host_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    ended = status("--bootstrap-server", "nobody")
    assert ended.exit_code == 2
    why = "its name cannot be looked up (name or service not known)"
    assert ended.stderr == f"kwire: no broker answers: nobody:9092: {why}\n"


def test_an_impossible_host_name_is_an_error() -> None:
    ended = status("--bootstrap-server", "a..b")
    assert ended.exit_code == 2
    assert ended.stderr == "kwire: no broker answers: a..b:9092: it is no name that could be looked up\n"


def test_a_server_without_response_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = status("--bootstrap-server", address, "--timeout", "0.2")
    assert ended.exit_code == 2
    assert ended.stderr == f"kwire: no broker answers: {address}: no answer in time\n"


def test_ipv6_addresses_are_in_brackets(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap_server.startswith("[::1]:")
        (shown,) = reported(broker.bootstrap_server)["brokers"]
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


def test_unhealthy_partitions_are_listed_with_their_missing_replicas() -> None:
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


def test_a_leader_that_does_not_answer_and_a_closed_replica_are_listed() -> None:
    unserved = replace(WHOLE, errors=("KAFKA_STORAGE_ERROR", None, None))
    unreachable = replace(WHOLE, index=1, errors=(UNREACHABLE, None, None))
    closed = replace(WHOLE, index=2, errors=(None, None, "KAFKA_STORAGE_ERROR"))
    starting = replace(WHOLE, index=3, errors=(None, "UNKNOWN_TOPIC_OR_PARTITION", None))
    assert unserved.states == ("unserved", "failed-replica")
    assert unreachable.states == ("unserved",)
    assert closed.states == ("failed-replica",)
    assert starting.is_healthy, "a follower may learn of a partition a moment later"
    lines = text(replace(STATUS, unhealthy=(closed, unserved, unreachable))).splitlines()
    counts = "0 offline, 2 unserved, 2 failed-replica, 0 under-min-isr, 0 under-replicated"
    assert lines[-6] == f"1 topic, 2 partitions, 4 replicas: {counts}"
    assert [" | ".join(line.split()) for line in lines[-3:]] == [
        "t-0 | 1 | 1,2,3 | 1,2,3 | 1 | (KAFKA_STORAGE_ERROR) | unserved, | failed-replica",
        "t-1 | 1 | 1,2,3 | 1,2,3 | - | unserved",
        "t-2 | 1 | 1,2,3 | 1,2,3 | 3 | (KAFKA_STORAGE_ERROR) | failed-replica",
    ]
    shown = as_object(replace(STATUS, unhealthy=(closed, unserved, unreachable)))
    assert (shown["unserved"], shown["failed_replica"]) == (2, 2)


def test_directories_without_space_and_those_that_failed_are_listed() -> None:
    full = Directory(path="/one", error=None, usable_bytes=4096)
    failed = Directory(path="/two", error="KAFKA_STORAGE_ERROR", usable_bytes=-1)
    unknown = Directory(path="/three", error=None, usable_bytes=-1)
    lines = text(replace(STATUS, brokers=(replace(BROKER, directories=(full, failed, unknown, SOUND)),))).splitlines()
    assert [" | ".join(line.split()) for line in lines[5:8]] == [
        "broker | log | directory | state | left",
        "1 | /one | full | 4096 | bytes",
        "1 | /two | offline | (KAFKA_STORAGE_ERROR) | -",
    ]
    assert lines[8] == ""


def test_a_new_leader_and_old_metadata_are_described_in_text() -> None:
    new = replace(QUORUM, high_watermark=-1, voters=(LEADER, replace(FOLLOWER, silent_ms=None, lag=None)))
    lines = text(replace(STATUS, quorum=new, metadata_age_ms=14_200)).splitlines()
    assert lines[5] == "controllers: 1 leads epoch 4, no metadata record of the epoch committed yet, 0 observers"
    assert lines[8].split(maxsplit=2)[2] == "no fetch from this leader   ?"
    assert lines[10] == "brokers and partitions: as the broker at localhost:9092 knows them, 14 s old"


def test_user_topics_are_listed_before_internal_topics() -> None:
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
        replace(STATUS, quorum=replace(QUORUM, high_watermark=-1)),
        replace(STATUS, metadata_age_ms=14_000),
        replace(STATUS, brokers=(replace(BROKER, directories=(replace(SOUND, usable_bytes=4096),)),)),
        replace(STATUS, brokers=(replace(BROKER, directories=(SOUND, replace(SOUND, error="KAFKA_STORAGE_ERROR"))),)),
        replace(STATUS, unhealthy=(replace(WHOLE, errors=(None, "KAFKA_STORAGE_ERROR", None)),)),
        replace(STATUS, unhealthy=(replace(WHOLE, errors=(UNREACHABLE, None, None)),)),
        replace(STATUS, quorum=replace(QUORUM, trouble="no controller answers", voters=())),
        replace(STATUS, quorum=replace(QUORUM, voters=(LEADER, replace(FOLLOWER, silent_ms=60_000)))),
        replace(STATUS, quorum=replace(QUORUM, voters=(LEADER, replace(FOLLOWER, silent_ms=None, lag=None)))),
    ],
)
def test_each_problem_makes_the_cluster_unhealthy(changed: ClusterStatus) -> None:
    assert not changed.is_healthy
    assert text(changed).startswith("cluster c: not healthy")
    assert not as_object(changed)["healthy"]


def test_escape_sequences_in_names_are_not_printed() -> None:
    assert "\033" not in text(replace(STATUS, brokers=(replace(BROKER, rack="\033[2J"),)))
