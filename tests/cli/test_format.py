"""The command `kwire format`: options for each kind of node, and starts from the formatted directories."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwire.cli import main
from kwire.cluster.directory import DirectoryRejected, load_meta_properties
from kwire.cluster.raft.snapshots import decode_snapshot, encode_snapshot
from kwire.log.disk import RealDisk
from kwire.protocol.messages.control_records import VotersRecord
from kwire.protocol.messages.metadata_records import FeatureLevelRecord
from kwire.protocol.uuids import uuid_from_text
from kwire.server.settings.config import SettingError
from tests.support.requests import create_topic
from tests.support.running import RunningBroker

CLUSTER = "vqbMkXcHSCi2oJQ2pWmTnw"
ONE = "1@127.0.0.1:9193:JEXY6aqzQY-32P5TStzaFg"
TWO = "2@127.0.0.2:9193:MvDxzVmcRsaTz33bUuRU6A"
ALICE = 'SCRAM-SHA-256=[name=alice,iterations=8192,salt="N3E=",password=alice-secret]'
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"

SERVERS = "controller.quorum.bootstrap.servers=127.0.0.1:9193"
CLIENTS = "listeners=PLAINTEXT://127.0.0.1:9192"
CONTROLLERS = "listeners=CONTROLLER://127.0.0.1:9193"
NODES = {
    "combined": ["process.roles=broker,controller", f"{CLIENTS},CONTROLLER://127.0.0.1:9193", SERVERS],
    "controller": ["process.roles=controller", CONTROLLERS, SERVERS],
    "broker": ["process.roles=broker", CLIENTS, SERVERS],
    "static": ["process.roles=controller", CONTROLLERS, "controller.quorum.voters=1@127.0.0.1:9193"],
    "static broker": ["process.roles=broker", CLIENTS, "controller.quorum.voters=2@127.0.0.1:9193"],
    "unconfigured": [],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def format_(tmp_path: Path, settings: list[str], *arguments: str, cluster_id: str = CLUSTER) -> Result:
    properties = tmp_path / "server.properties"
    properties.write_text("\n".join([f"log.dirs={tmp_path / 'data'}", *settings]))
    return run("format", "-c", str(properties), "-t", cluster_id, *arguments)


def rejected(ended: Result, tmp_path: Path) -> str:
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert not (tmp_path / "data").exists()
    (line,) = ended.stderr.splitlines()
    assert line.startswith("kwire: ")
    return line


NEEDS_ONE = "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."
NOT_WITH_VOTERS = "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --stan"
NOT_ON_BROKERS = "You can only use --standalone on a controller."


@pytest.mark.parametrize(
    ("node", "options", "words"),
    [
        *((node, [], NEEDS_ONE) for node in ("combined", "controller", "unconfigured")),
        *((node, ["-s"], NOT_WITH_VOTERS) for node in ("static", "static broker")),
        *((node, ["-I", f"{ONE},{TWO}"], NOT_WITH_VOTERS) for node in ("static", "static broker")),
        ("broker", ["-s"], NOT_ON_BROKERS),
        ("controller", ["-s", "-N"], "--no-initial-controllers is not allowed with --standalone."),
        ("controller", ["-I", ONE, "-s"], "--initial-controllers is not allowed with --standalone."),
        ("controller", ["-I", ONE, "-N"], "--no-initial-controllers is not allowed with --initial-controllers."),
        ("controller", ["-I", "nonsense"], "No @ found in dynamic voter string"),
        ("controller", ["-s", "-f", "kraft.version=0"], "Cannot set kraft.version to 0"),
        ("controller", ["-N", "-f", "kraft.version=0"], "Cannot set kraft.version to 0"),
        ("static", ["-f", "kraft.version=1"], "Cannot set kraft.version to 1"),
        ("static", ["-f", "x=1"], "Unsupported feature: x."),
        ("static", ["-f", "x"], "equals sign not found"),
        ("static", ["-r", "9.9"], "Unknown metadata.version '9.9'"),
        ("static", ["-r", "3.4", "-S", ALICE], "Unknown metadata.version '3.4'"),
        ("controller", ["-s", "-S", "alice"], "Failed to find equals sign in SCRAM argument 1"),
        (
            "broker",
            ["--add-scram", ALICE, "--add-scram", "SCRAM-SHA-256=[name=bob]"],
            "You must supply one of 'passwor",
        ),
    ],
)
def test_options_that_do_not_go_together_are_rejected(
    tmp_path: Path, node: str, options: list[str], words: str
) -> None:
    assert words in rejected(format_(tmp_path, NODES[node], *options), tmp_path)


VOTES = [(node, option) for node in ("combined", "controller") for option in (["-s"], ["-I", f"{ONE},{TWO}"])]


@pytest.mark.parametrize(
    ("node", "options"), [*VOTES, ("unconfigured", ["-s"]), ("broker", ["-I", f"{ONE},{TWO}"]), ("broker", ["-I", TWO])]
)
def test_voters_are_in_the_first_snapshot(tmp_path: Path, node: str, options: list[str]) -> None:
    ended = format_(tmp_path, NODES[node], *options)
    assert ended.exit_code == 0, ended.output
    meta = load_meta_properties(RealDisk(), str(tmp_path / "data"))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER, 1)
    _, (_, voters) = decode_snapshot((tmp_path / "data" / CHECKPOINT).read_bytes()).controls
    assert isinstance(voters, VotersRecord)
    named = {voter.voter_id: voter.voter_directory_id for voter in voters.voters}
    if 1 in named:
        assert named[1] == meta.directory_id
    if "-s" in options:
        (endpoint,) = voters.voters[0].endpoints
        port = 9093 if node == "unconfigured" else 9193
        assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "127.0.0.1", port)
    else:
        assert named[2] == uuid_from_text("MvDxzVmcRsaTz33bUuRU6A")


@pytest.mark.parametrize(
    ("node", "options"),
    [
        *((node, ["-N"]) for node in NODES),
        ("broker", []),
        ("static", []),
        ("static broker", []),
        ("controller", ["-N", "-f", "kraft.version=1"]),
        ("static", ["-f", "kraft.version=0", "-r", "4.3"]),
    ],
)
def test_without_initial_voters_there_is_no_snapshot(tmp_path: Path, node: str, options: list[str]) -> None:
    ended = format_(tmp_path, NODES[node], *options)
    assert ended.exit_code == 0, ended.output
    found = sorted(path.name for path in (tmp_path / "data").iterdir() if path.name != ".lock")
    assert found == ["bootstrap.checkpoint", "meta.properties"]


@pytest.mark.parametrize(("node", "options"), [("combined", ["-s"]), ("broker", []), ("static", [])])
def test_users_are_in_the_records_that_a_cluster_begins_with(tmp_path: Path, node: str, options: list[str]) -> None:
    bob = "SCRAM-SHA-512=[name=bob,password=bob-secret]"
    ended = format_(tmp_path, NODES[node], *options, "-S", ALICE, "--add-scram", bob)
    assert ended.exit_code == 0, ended.output
    assert "SCRAM-SHA-256 of alice, SCRAM-SHA-512 of bob\n" in ended.stdout
    assert "secret" not in ended.output
    records = decode_snapshot((tmp_path / "data" / "bootstrap.checkpoint").read_bytes()).records
    levels, users = records[:-2], records[-2:]
    assert all(isinstance(each, FeatureLevelRecord) for each in levels)
    kept = [(each.name, each.mechanism, each.iterations) for each in users]
    assert kept == [("alice", 1, 8192), ("bob", 2, 4096)]
    assert users[0].salt == b"7q"


def test_a_users_name_steers_no_terminal(tmp_path: Path) -> None:
    ended = format_(tmp_path, NODES["static"], "-S", "SCRAM-SHA-256=[name=a\nFormatted.\x1b[2J,password=x]")
    assert ended.exit_code == 0, ended.output
    assert r"SCRAM-SHA-256 of a\nFormatted.\x1b[2J" in ended.stdout
    (*_, user) = decode_snapshot((tmp_path / "data" / "bootstrap.checkpoint").read_bytes()).records
    assert user.name == "a\nFormatted.\x1b[2J"


def test_a_dump_shows_the_keys_of_users_as_kafkas_does(tmp_path: Path) -> None:
    assert format_(tmp_path, NODES["static"], "-S", ALICE).exit_code == 0
    checkpoint = tmp_path / "data" / "bootstrap.checkpoint"
    (*_, user) = decode_snapshot(checkpoint.read_bytes()).records
    ended = run("log", "dump", str(checkpoint), "--records", "--format", "json")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (shown,) = (row for row in rows if row.get("record") == "UserScramCredentialRecord")
    shown_keys = [shown["fields"][name] for name in ("stored_key", "server_key")]
    assert shown_keys == [{"base64": b64encode(each).decode()} for each in (user.stored_key, user.server_key)]


@pytest.mark.parametrize(
    ("listeners", "host", "port"),
    [
        ("listeners=CONTROLLER://:5", "localhost", 5),
        ("listeners=CONTROLLER://0.0.0.0:5", "localhost", 5),
        ("listeners=CONTROLLER://[::1]:5", "::1", 5),
        ("listeners=CONTROLLER://:5\nadvertised.listeners=CONTROLLER://outside:6", "outside", 6),
    ],
)
def test_a_standalone_voter_has_its_advertised_endpoint(tmp_path: Path, listeners: str, host: str, port: int) -> None:
    assert format_(tmp_path, ["process.roles=controller", listeners, SERVERS], "-s").exit_code == 0
    _, (_, voters) = decode_snapshot((tmp_path / "data" / CHECKPOINT).read_bytes()).controls
    (endpoint,) = voters.voters[0].endpoints
    assert (endpoint.host, endpoint.port) == (host, port)


def test_formatted_directories_are_rejected_or_ignored(tmp_path: Path) -> None:
    assert format_(tmp_path, NODES["combined"], "-s").exit_code == 0
    again = format_(tmp_path, NODES["combined"], "-s")
    assert again.exit_code == 1
    assert "is already formatted. Use --ignore-formatted" in again.stderr
    ignored = format_(tmp_path, NODES["combined"], "-s", "-g")
    assert (ignored.exit_code, ignored.stdout) == (0, "All of the log directories are already formatted.\n")
    assert "Invalid cluster.id" in format_(tmp_path, NODES["combined"], "-s", "-g", cluster_id="other").stderr


def test_the_command_line_is_explained(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.properties")
    assert "argument --config/-c is required" in rejected(run("format", "-t", CLUSTER), tmp_path)
    assert "argument --cluster-id/-t is required" in rejected(run("format", "-c", missing), tmp_path)
    assert "missing.properties: No such file" in rejected(run("format", "-c", missing, "-t", CLUSTER), tmp_path)
    assert "num.partitions" in rejected(format_(tmp_path, ["num.partitions=0"], "-s"), tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in rejected(run("format", "-c", str(tmp_path / "binary"), "-t", CLUSTER), tmp_path)


@pytest.mark.parametrize("cluster_id", ["", "two words", "a=b", "a\nnode.id=2", "ü"])
def test_an_invalid_cluster_id_is_rejected(tmp_path: Path, cluster_id: str) -> None:
    assert "The cluster id may have" in rejected(format_(tmp_path, [], "-s", cluster_id=cluster_id), tmp_path)


def test_random_ids_are_all_different() -> None:
    printed = [run("random-uuid").stdout for _ in range(20)]
    assert len(set(printed)) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", text) for text in printed)


@pytest.mark.parametrize(
    ("settings", "options"), [([], ["-s"]), ([SERVERS], ["-s"]), (["controller.quorum.voters=1@127.0.0.1:9193"], [])]
)
def test_a_formatted_directory_is_served(tmp_path: Path, settings: list[str], options: list[str]) -> None:
    listeners = ["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"]
    assert format_(tmp_path, [*listeners, *settings], *options).exit_code == 0
    given = dict(line.split("=", 1) for line in [*listeners, *settings])
    for _ in range(2):
        with RunningBroker(tmp_path / "data", given) as broker, broker.client() as client:
            assert broker.server.cluster_id == CLUSTER
            assert create_topic(client)


def test_a_directory_that_was_formatted_for_an_old_version_is_rejected(tmp_path: Path) -> None:
    listeners = ["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"]
    assert format_(tmp_path, listeners, "-s").exit_code == 0
    old = FeatureLevelRecord(name="metadata.version", feature_level=8)
    checkpoint = encode_snapshot([old], epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    (tmp_path / "data" / "bootstrap.checkpoint").write_bytes(b"".join(checkpoint))
    given = dict(line.split("=", 1) for line in listeners)
    with pytest.raises(DirectoryRejected, match=r"cannot be served: metadata\.version is at level 8; supported are"):
        RunningBroker(tmp_path / "data", given)


def test_a_node_that_joins_does_not_lead_alone(tmp_path: Path) -> None:
    """The cluster's voters are on other nodes: the node must wait for them, and must not form a second cluster."""
    listeners = ["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"]
    assert format_(tmp_path, [*listeners, SERVERS], "-N").exit_code == 0
    given = dict(line.split("=", 1) for line in [*listeners, SERVERS, "initial.broker.registration.timeout.ms=300"])
    with pytest.raises(SettingError, match="no controllers lead that this node could find"):
        RunningBroker(tmp_path / "data", given)
