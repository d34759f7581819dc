"""Cluster directory: created once, completed after a crash, opened again, and rejected with other arguments."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import cluster_directory, main
from kwire.cli.cluster_directory import CLUSTER_FILE, LOCK_FILE, Cluster, ClusterRejected
from kwire.cli.cluster_opening import ClusterOptions, open_cluster
from kwire.cluster.directory import load_meta_properties
from kwire.cluster.raft.snapshots import decode_snapshot
from kwire.log.disk import DiskLock, RealDisk
from kwire.protocol.messages.control_records import VotersRecord
from kwire.protocol.uuids import uuid_to_text
from kwire.server.node.formation import format_storage

CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[DiskLock]]:
    """Return the locks that were taken; the end of a process releases them, and so does a test."""
    taken: list[DiskLock] = []
    take = cluster_directory.lock_cluster

    def remember(cluster: Cluster) -> DiskLock:
        taken.append(take(cluster))
        return taken[-1]

    monkeypatch.setattr("kwire.cli.cluster_opening.lock_cluster", remember)
    yield taken
    release(taken)


def release(locks: list[DiskLock]) -> None:
    while locks:
        locks.pop().release()


def wanted(data: Path, **more: object) -> ClusterOptions:
    given = {"brokers": None, "controllers": None, "port": 0, "overrides": ()} | more
    return ClusterOptions(data=data, **given)  # type: ignore[arg-type]


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else b""
        for path in sorted(directory.rglob("*"))
        if path.name != LOCK_FILE
    }


def voters_of(directory: Path) -> set[tuple[int, str]]:
    _, (_, voters) = decode_snapshot((directory / CHECKPOINT).read_bytes()).controls
    assert isinstance(voters, VotersRecord)
    return {(voter.voter_id, uuid_to_text(voter.voter_directory_id)) for voter in voters.voters}


def test_a_new_cluster_is_formatted_for_one_quorum(tmp_path: Path) -> None:
    made = open_cluster(wanted(tmp_path / "a" / "b", brokers=2, controllers=3))
    metas = {node: load_meta_properties(RealDisk(), str(made.log_dir(node))) for node in made.nodes}
    assert [node.name for node in metas] == ["broker-1", "broker-2", "controller-3", "controller-4", "controller-5"]
    assert {meta.cluster_id for meta in metas.values() if meta} == {made.cluster_id}
    identities = {(meta.node_id, uuid_to_text(meta.directory_id)) for meta in metas.values() if meta}
    assert len(identities) == 5
    for node in made.nodes[2:]:
        assert voters_of(made.log_dir(node)) == {(number, text) for number, text in identities if number > 2}
    assert not (made.log_dir(made.nodes[0]) / CHECKPOINT).exists()


def test_an_existing_cluster_is_opened_unchanged(tmp_path: Path, locks: list[DiskLock]) -> None:
    first = open_cluster(wanted(tmp_path))
    release(locks)
    before = contents(tmp_path)
    assert open_cluster(wanted(tmp_path, port=None)) == first
    release(locks)
    assert open_cluster(wanted(tmp_path, brokers=3, controllers=0, port=first.ports[0])) == first
    assert contents(tmp_path) == before


class Crashed(Exception):  # noqa: N818
    """Simulated power cut."""


@pytest.mark.parametrize("formatted", [0, 1, 2])
def test_an_interrupted_creation_is_completed(
    tmp_path: Path, formatted: int, locks: list[DiskLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = formatted

    def crash(*arguments: object, **named: object) -> None:
        nonlocal left
        if not left:
            raise Crashed
        left -= 1
        format_storage(*arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(cluster_directory, "format_storage", crash)
        with pytest.raises(Crashed):
            open_cluster(wanted(tmp_path))
    release(locks)
    assert not (tmp_path / CLUSTER_FILE).exists()
    before = contents(tmp_path)
    made = open_cluster(wanted(tmp_path))
    assert len([path for path in before if path.endswith("meta.properties")]) == formatted
    after = contents(tmp_path)
    assert all(after[path] == data for path, data in before.items() if "unfinished" not in path)
    assert len({frozenset(voters_of(made.log_dir(node))) for node in made.nodes}) == 1


def rejected(asked: ClusterOptions) -> str:
    """Check that the directory is rejected and unchanged; return the error of one line."""
    before = contents(asked.data)
    with pytest.raises(ClusterRejected) as caught:
        open_cluster(asked)
    assert contents(asked.data) == before
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"brokers": 4}, "holds a cluster of --brokers 3 --controllers 0; leave them out"),
        ({"controllers": 1}, "holds a cluster of --brokers 3 --controllers 0; leave them out"),
        ({"port": 1}, "was made with --port"),
        ({}, "in use by another kwire cluster"),
    ],
)
def test_another_cluster_than_the_one_that_is_there_is_rejected(
    tmp_path: Path, asked: dict[str, object], words: str
) -> None:
    open_cluster(wanted(tmp_path))
    assert words in rejected(wanted(tmp_path, **asked))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"brokers": 0}, "--brokers 0"),
        ({"port": 65535}, "--port 65535: 6 ports"),
        ({"overrides": ("node.id=7",)}, "--override node.id: is each node's own"),
        ({"overrides": ("num.partitions",)}, "write it as key=value"),
        ({"overrides": ("num.partitions=many",)}, "num.partitions"),
    ],
)
def test_invalid_options_create_no_directory(tmp_path: Path, asked: dict[str, object], words: str) -> None:
    assert words in rejected(wanted(tmp_path / "new", **asked))
    assert not (tmp_path / "new").exists()


def test_a_path_that_settings_cannot_name_is_rejected(tmp_path: Path) -> None:
    assert "comma" in rejected(wanted(tmp_path / "a,b"))


def test_taken_ports_are_all_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = rejected(wanted(tmp_path / "new", brokers=1, port=port))
    assert line.startswith(f"127.0.0.1:{port}")
    assert "taken" in line
    assert not (tmp_path / "new").exists()


def test_taken_ports_of_a_cluster_that_is_there_are_named(tmp_path: Path, locks: list[DiskLock]) -> None:
    made = open_cluster(wanted(tmp_path))
    release(locks)
    with socket.create_server(("127.0.0.1", made.ports[1])), socket.create_server(("127.0.0.1", made.ports[3])):
        line = rejected(wanted(tmp_path))
    assert line == f"127.0.0.1:{made.ports[3]}, 127.0.0.1:{made.ports[1]} are taken; end what uses it"


def test_a_directory_with_foreign_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    assert "holds files but no cluster.properties" in rejected(wanted(tmp_path))


def test_a_moved_cluster_is_rejected(tmp_path: Path, locks: list[DiskLock]) -> None:
    open_cluster(wanted(tmp_path / "a"))
    release(locks)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert f"was moved or copied from {tmp_path / 'a'}" in rejected(wanted(tmp_path / "b"))


@pytest.mark.parametrize("damage", ["cluster.id=x", "brokers=many", "\udcff", "{whole}\nports=1,2"])
def test_a_cluster_file_that_cannot_be_read_is_rejected(tmp_path: Path, damage: str, locks: list[DiskLock]) -> None:
    open_cluster(wanted(tmp_path))
    release(locks)
    path = tmp_path / CLUSTER_FILE
    path.write_bytes(damage.replace("{whole}", path.read_text()).encode(errors="surrogateescape"))
    assert str(path) in rejected(wanted(tmp_path))


def test_a_node_without_its_data_is_rejected(tmp_path: Path, locks: list[DiskLock]) -> None:
    made = open_cluster(wanted(tmp_path))
    release(locks)
    shutil.rmtree(made.log_dir(made.nodes[1]))
    line = rejected(wanted(tmp_path))
    assert f"kwire format -N -t {made.cluster_id} -c {made.properties(made.nodes[1])}" in line
    release(locks)
    shutil.copytree(made.log_dir(made.nodes[0]), made.log_dir(made.nodes[1]))
    assert "is of node 1 of cluster" in rejected(wanted(tmp_path))


def test_edited_settings_are_kept_and_checked(tmp_path: Path, locks: list[DiskLock]) -> None:
    made = open_cluster(wanted(tmp_path))
    release(locks)
    path = made.properties(made.nodes[2])
    path.write_text(path.read_text() + "num.partitions=6\n")
    open_cluster(wanted(tmp_path))
    release(locks)
    assert path.read_text().endswith("num.partitions=6\n")
    path.write_text(path.read_text() + "node.id=1\n")
    assert "node.id is 1, but this is the file of node 3" in rejected(wanted(tmp_path))
    release(locks)
    path.write_text("num.partitions=none\n")
    assert rejected(wanted(tmp_path)).endswith("(broker-3)")
    release(locks)
    path.unlink()
    assert f"{path}: No such file" in rejected(wanted(tmp_path))


def test_the_command_rejects_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for data in (tmp_path / "file", tmp_path / "file" / "below"):
        ended = CliRunner().invoke(main, ["cluster", "start", "--data", str(data), "--port", "0"])
        assert (ended.exit_code, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert line.startswith("kwire: ")
        assert str(tmp_path / "file") in line
