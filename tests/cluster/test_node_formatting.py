"""Formatting of a node's directories: files written, rejections without changes, and crashes in between."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.directory import DirectoryRejected, MetaProperties, is_blank, load_meta_properties
from kwire.cluster.formatting.formatting import bootstrap_records, write_identity
from kwire.cluster.formatting.initial_controllers import parse_initial_controllers
from kwire.cluster.formatting.initial_scram import parse_scram
from kwire.cluster.formatting.node_formatting import FormatRejected, NodeFormat, format_node
from kwire.cluster.metadata.features import FORMATTED
from kwire.cluster.quorum.voters import VoterSet
from kwire.cluster.raft.snapshots import decode_snapshot
from kwire.log.disk import Data, DiskFailure, RealDisk
from kwire.log.file_lock import RealLock
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.control_records import KRaftVersionRecord
from kwire.protocol.messages.metadata_records import FeatureLevelRecord, UserScramCredentialRecord
from kwire.protocol.uuids import uuid_from_text
from kwire.seams import SystemRandomSource
from tests.log.support import ManualClock

ONE = "JEXY6aqzQY-32P5TStzaFg"
VOTERS = parse_initial_controllers(f"1@h:1:{ONE},2@i:2:MvDxzVmcRsaTz33bUuRU6A", "CONTROLLER")
METADATA = "__cluster_metadata-0"
CHECKPOINT = f"{METADATA}/00000000000000000000-0000000000.checkpoint"
EVERYWHERE = ["bootstrap.checkpoint", "meta.properties"]


def node(
    tmp_path: Path,
    *,
    voters: VoterSet | None = VOTERS,
    node_id: int = 1,
    cluster_id: str = "c",
    metadata: str = "b",
    features: Mapping[str, int] = FORMATTED,
    credentials: tuple[UserScramCredentialRecord, ...] = (),
) -> NodeFormat:
    """Return a node with the log directories a and b."""
    return NodeFormat(
        cluster_id=cluster_id,
        node_id=node_id,
        log_dirs=(str(tmp_path / "b"), str(tmp_path / "a")),
        metadata_dir=str(tmp_path / metadata),
        features=features,
        credentials=credentials,
        voters=voters,
    )


def format_(wanted: NodeFormat, disk: RealDisk | None = None, *, ignore_formatted: bool = False) -> list[str]:
    said: list[str] = []
    format_node(
        wanted,
        disk=disk or RealDisk(),
        random_source=SystemRandomSource(),
        clock=ManualClock(),
        say=said.append,
        ignore_formatted=ignore_formatted,
    )
    return said


def files(directory: Path) -> list[str]:
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.name != ".lock")


def meta_of(directory: Path) -> MetaProperties:
    meta = load_meta_properties(RealDisk(), str(directory))
    assert meta is not None
    return meta


@pytest.mark.parametrize(
    ("voters", "node_id", "kind"),
    [
        (VOTERS, 1, "dynamic metadata voter directory"),
        (VOTERS, 3, "dynamic metadata directory"),
        (None, 1, "metadata directory"),
    ],
)
def test_each_directory_is_formatted_and_that_of_the_metadata_last(
    tmp_path: Path, voters: VoterSet | None, node_id: int, kind: str
) -> None:
    said = format_(node(tmp_path, voters=voters, node_id=node_id, metadata="a"))
    assert said[1:] == [
        f"Formatting data directory {tmp_path / 'b'} with metadata.version 4.3-IV0.",
        f"Formatting {kind} {tmp_path / 'a'} with metadata.version 4.3-IV0.",
    ]
    assert files(tmp_path / "b") == EVERYWHERE
    assert files(tmp_path / "a") == sorted([*EVERYWHERE, *([CHECKPOINT] if voters else [])])
    one, two = meta_of(tmp_path / "a"), meta_of(tmp_path / "b")
    assert (one.cluster_id, one.node_id) == (two.cluster_id, two.node_id) == ("c", node_id)
    assert (one.directory_id == uuid_from_text(ONE)) == (voters is not None and node_id == 1)
    assert two.directory_id not in (one.directory_id, uuid_from_text(ONE))


def test_the_first_snapshot_names_the_voters(tmp_path: Path) -> None:
    format_(node(tmp_path))
    snapshot = decode_snapshot((tmp_path / "b" / CHECKPOINT).read_bytes())
    assert list(snapshot.controls) == [
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1)),
        (ControlRecordType.KRAFT_VOTERS, VOTERS.to_record()),
    ]
    assert snapshot.records == []


def test_features_are_in_each_directory(tmp_path: Path) -> None:
    format_(node(tmp_path, features={"metadata.version": 30}))
    for name in ("a", "b"):
        records = bootstrap_records(RealDisk(), str(tmp_path / name))
        assert records == [FeatureLevelRecord(name="metadata.version", feature_level=30)]


def test_users_are_in_each_directory_behind_the_features(tmp_path: Path) -> None:
    users = parse_scram(
        ["SCRAM-SHA-256=[name=a,password=x]", "SCRAM-SHA-512=[name=a,password=x]"], SystemRandomSource()
    )
    said = format_(node(tmp_path, features={"metadata.version": 30}, credentials=tuple(users)))
    assert said[0] == "Bootstrap metadata: metadata.version=30, SCRAM-SHA-256 of a, SCRAM-SHA-512 of a"
    wanted = node(tmp_path, credentials=tuple(users))
    assert not any(repr(each.stored_key) in repr(wanted) for each in users)
    for name in ("a", "b"):
        records = bootstrap_records(RealDisk(), str(tmp_path / name))
        assert records == [FeatureLevelRecord(name="metadata.version", feature_level=30), *users]
    assert decode_snapshot((tmp_path / "b" / CHECKPOINT).read_bytes()).records == []


def test_the_metadata_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    format_(node(tmp_path, metadata="m"))
    assert files(tmp_path / "m") == sorted([*EVERYWHERE, CHECKPOINT])
    assert files(tmp_path / "a") == files(tmp_path / "b") == EVERYWHERE


def test_a_formatted_directory_is_left_unchanged(tmp_path: Path) -> None:
    format_(node(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FormatRejected, match=f"Log directory {tmp_path / 'a'} is already formatted. Use --ignore"):
        format_(node(tmp_path))
    assert format_(node(tmp_path), ignore_formatted=True) == ["All of the log directories are already formatted."]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_blank_directory_beside_a_formatted_one_is_formatted_with_ignore_formatted(tmp_path: Path) -> None:
    format_(node(tmp_path))
    kept = meta_of(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    with pytest.raises(FormatRejected, match="already formatted"):
        format_(node(tmp_path))
    assert not list((tmp_path / "a").iterdir())
    assert len(format_(node(tmp_path), ignore_formatted=True)) == 2
    assert files(tmp_path / "a") == EVERYWHERE
    assert meta_of(tmp_path / "b") == kept


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"cluster_id": "d"}, "Invalid cluster.id in: .*meta.properties. Expected d, but read c"),
        ({"node_id": 2}, "Invalid node.id in: .*meta.properties. Expected 2, but read 1"),
    ],
)
@pytest.mark.parametrize("ignore_formatted", [False, True])
def test_directories_of_others_are_rejected(
    tmp_path: Path, other: dict[str, object], words: str, ignore_formatted: bool
) -> None:
    identity = MetaProperties(cluster_id="c", node_id=1, directory_id=UUID(int=500))
    write_identity(RealDisk(), str(tmp_path / "a"), identity)
    with pytest.raises(FormatRejected, match=words):
        format_(node(tmp_path, **other), ignore_formatted=ignore_formatted)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("content", ["holiday.jpg", "orders-0/00000000000000000000.log", f"{METADATA}/quorum-state"])
def test_a_directory_that_is_not_blank_is_rejected_unchanged(tmp_path: Path, content: str) -> None:
    (tmp_path / "a" / content).parent.mkdir(parents=True)
    (tmp_path / "a" / content).touch()
    with pytest.raises(DirectoryRejected, match="holds files but no meta"):
        format_(node(tmp_path), ignore_formatted=True)
    assert files(tmp_path) == [f"a/{content}"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(DirectoryRejected, match="is not a directory"):
        format_(node(tmp_path))
    assert not (tmp_path / "b").exists()


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    lock = RealDisk().lock(str(tmp_path / "b" / ".lock"))
    assert lock is not None
    with pytest.raises(FormatRejected, match="b is in use by another process"):
        format_(node(tmp_path))
    lock.release()
    assert len(format_(node(tmp_path), ignore_formatted=True)) == 2


class UnreadableDisk(RealDisk):
    """A disk with a device that fails below one directory."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def exists(self, path: str) -> bool:
        if path.endswith(self.names):
            raise DiskFailure("stat", path, OSError(errno.EIO, "Input/output error"))
        return super().exists(path)


def test_a_device_that_fails_is_left_out(tmp_path: Path) -> None:
    said = format_(node(tmp_path), UnreadableDisk("/a"))
    assert said[0] == f"I/O error trying to read log directory {tmp_path / 'a'}. Ignoring..."
    assert files(tmp_path) == sorted([*(f"b/{name}" for name in EVERYWHERE), f"b/{CHECKPOINT}"])


def test_at_least_one_device_must_work(tmp_path: Path) -> None:
    with pytest.raises(FormatRejected, match="No available log directories to format"):
        format_(node(tmp_path), UnreadableDisk("/a", "/b"))
    assert not list(tmp_path.iterdir())


class ReadOnlyDisk(RealDisk):
    """A disk that creates directories and no files."""

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        raise DiskFailure("write", path, OSError(errno.EROFS, "Read-only file system"))


def test_a_read_only_device_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FormatRejected, match="failed: Read-only file system"):
        format_(node(tmp_path), ReadOnlyDisk())
    assert is_blank(RealDisk(), str(tmp_path / "a"))


class Stopped(Exception):  # noqa: N818
    """Simulated power cut."""


class StoppingDisk(RealDisk):
    """A disk that loses power before the n-th change."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.changes = changes

    def _step(self) -> None:
        if self.changes == 0:
            raise Stopped
        self.changes -= 1

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        assert sync, "formatting is durable step by step"
        try:
            self._step()
        except Stopped:
            Path(path + ".tmp").write_bytes(b"half")
            raise
        super().replace(path, data, sync=sync)

    def make_directory(self, path: str) -> None:
        self._step()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._step()
        super().remove_directory(path)


@pytest.mark.parametrize("again", [VOTERS, None])
@pytest.mark.parametrize("changes", range(12))
def test_formatting_may_be_interrupted_anywhere(tmp_path: Path, changes: int, again: VoterSet | None) -> None:
    """The directories can be formatted again, also with other arguments: no voters of the first try remain."""
    disk = StoppingDisk(changes)
    with pytest.raises(Stopped):
        format_(node(tmp_path), disk)
    assert load_meta_properties(RealDisk(), str(tmp_path / "b")) is None, "the metadata's directory comes last"
    format_(node(tmp_path, voters=again), ignore_formatted=True)
    assert [path for path in files(tmp_path) if not path.endswith(".tmp")] == sorted(
        [*(f"{name}/{file}" for name in "ab" for file in EVERYWHERE), *([f"b/{CHECKPOINT}"] if again else [])]
    )
    assert meta_of(tmp_path / "a").cluster_id == meta_of(tmp_path / "b").cluster_id == "c"


@pytest.mark.parametrize("content", [b"", b"junk" * 40])
def test_bootstrap_records_that_are_damaged_are_rejected_with_the_name_of_the_file(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(content)
    with pytest.raises(DirectoryRejected, match=r"/bootstrap\.checkpoint cannot be read"):
        bootstrap_records(RealDisk(), str(tmp_path))


def test_an_identity_without_one_of_its_parts_is_rejected_by_the_name_of_the_part(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\n")
    with pytest.raises(DirectoryRejected, match=r"/meta\.properties cannot be read \(no node\.id in it\)"):
        load_meta_properties(RealDisk(), str(tmp_path))


class OvertakenDisk(RealDisk):
    """A disk where another process formats a directory between the first check and its lock."""

    def lock(self, path: str) -> RealLock | None:
        Path(path).parent.joinpath("meta.properties").write_text("version=1\n")
        return super().lock(path)


def test_a_directory_formatted_concurrently_by_another_process_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FormatRejected, match="was formatted by another process just now"):
        format_(node(tmp_path), OvertakenDisk())
    assert (tmp_path / "a" / "meta.properties").read_text() == "version=1\n"
    lock = RealDisk().lock(str(tmp_path / "a" / ".lock"))
    assert lock is not None
    lock.release()
