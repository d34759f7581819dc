"""Log directories at start: formatted if that is safe, otherwise rejected without changes."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.harness.paths import CACHE
from kwire.cluster.directory import DirectoryRejected, load_meta_properties
from kwire.log.disk import Data, DiskFailure, RealDisk
from kwire.seams import SystemClock, SystemRandomSource
from kwire.server.node.storage import Storage, open_storage
from kwire.server.settings.config import BrokerConfig, make_config
from tests.log.faults import FaultyDisk, broken
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker

KAFKA = CACHE / "kafka-4.3.1" / "lib"


def config(*directories: Path, **settings: str) -> BrokerConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return make_config({"log.dirs": ",".join(map(str, directories))} | named)


def take(asked: BrokerConfig, disk: RealDisk | None = None) -> Storage:
    return open_storage(asked, disk=disk or RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())


def take_and_release(asked: BrokerConfig, disk: RealDisk | None = None) -> Storage:
    taken = take(asked, disk)
    taken.release()
    return taken


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else b""
        for path in sorted(directory.rglob("*"))
        if path.name != ".lock"
    }


def test_a_missing_directory_is_made_and_formatted(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    taken = take_and_release(config(directory))
    assert sorted(contents(directory)) == [
        "__cluster_metadata-0",
        "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    meta = load_meta_properties(RealDisk(), str(directory))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (taken.cluster_id, 1)


def test_an_empty_directory_is_formatted_and_known_from_then_on(tmp_path: Path) -> None:
    first = take_and_release(config(tmp_path))
    before = contents(tmp_path)
    second = take_and_release(config(tmp_path))
    assert (second.cluster_id, second.directory_ids) == (first.cluster_id, first.directory_ids)
    assert contents(tmp_path) == before


class Stopped(Exception):  # noqa: N818
    """Simulated power cut."""


class StoppingDisk(RealDisk):
    """Disk that loses power before the n-th change; a half-written file ends with .tmp."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.changes = changes

    def _step(self, path: str = "") -> None:
        if self.changes == 0:
            if path:
                Path(path + ".tmp").write_bytes(b"half")
            raise Stopped
        self.changes -= 1

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        assert sync, "formatting is durable step by step"
        self._step(path)
        super().replace(path, data, sync=sync)

    def make_directory(self, path: str) -> None:
        self._step()
        super().make_directory(path)


@pytest.mark.parametrize("changes", range(9))
def test_formatting_may_be_interrupted_anywhere(tmp_path: Path, changes: int) -> None:
    directory = tmp_path / "data"
    disk = StoppingDisk(changes)
    try:
        take_and_release(config(directory), disk)
    except Stopped:
        meta = load_meta_properties(RealDisk(), str(directory))
        assert meta is None, "meta.properties comes last"
    else:
        assert disk.changes > 0 or changes >= 6
    take_and_release(config(directory))
    assert load_meta_properties(RealDisk(), str(directory)) is not None
    with RunningBroker(directory) as broker, broker.client() as client:
        create_topic(client)


def test_a_metadata_log_without_meta_properties_is_not_blank(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        create_topic(client)
    (tmp_path / "meta.properties").unlink()
    for other in tmp_path.iterdir():
        if other.name not in {"__cluster_metadata-0", "bootstrap.checkpoint"}:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    rejected_untouched(tmp_path, config(tmp_path), "meta.properties")


def rejected_untouched(directory: Path, asked: BrokerConfig, words: str) -> None:
    before = contents(directory)
    with pytest.raises(DirectoryRejected, match=words) as rejected:
        take(asked)
    assert str(rejected.value).startswith("log.dirs: ")
    assert "\n" not in str(rejected.value)
    assert contents(directory) == before
    assert not (directory / ".lock").exists() or before.get("meta.properties") is not None


def test_a_foreign_directory_is_rejected_untouched(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    rejected_untouched(tmp_path, config(tmp_path), "no log directory")
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    rejected_untouched(tmp_path, config(tmp_path / "file"), "not a directory")


def test_a_link_to_a_directory_may_be_a_log_directory(tmp_path: Path) -> None:
    volume, link = tmp_path / "volume", tmp_path / "link"
    volume.mkdir()
    link.symlink_to(volume)
    taken = take_and_release(config(link))
    assert take_and_release(config(volume)).directory_ids.keys() != taken.directory_ids.keys()
    assert set(take_and_release(config(volume)).directory_ids.values()) == set(taken.directory_ids.values())


def test_a_directory_of_another_node_is_rejected(tmp_path: Path) -> None:
    take_and_release(config(tmp_path))
    rejected_untouched(tmp_path, config(tmp_path, node_id="2"), "node 1")


@pytest.mark.parametrize("damage", ["version=2\n", "version=1\nnode.id=1\n", "node.id=x\nversion=1\n", ""])
def test_a_damaged_identity_is_rejected(tmp_path: Path, damage: str) -> None:
    take_and_release(config(tmp_path))
    (tmp_path / "meta.properties").write_text(damage)
    rejected_untouched(tmp_path, config(tmp_path), "meta.properties")


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    held = take(config(tmp_path))
    try:
        with pytest.raises(DirectoryRejected, match="in use by another broker"):
            take(config(tmp_path))
    finally:
        held.release()
    take_and_release(config(tmp_path))


@pytest.mark.parametrize(
    "quorum",
    [{"controller_quorum_voters": "1@localhost:9093"}, {"controller_quorum_bootstrap_servers": "localhost:9093"}],
)
def test_a_blank_directory_of_a_configured_quorum_is_rejected(tmp_path: Path, quorum: dict[str, str]) -> None:
    directory = tmp_path / "unmounted"
    quorum |= {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
    with pytest.raises(DirectoryRejected, match="format it with kwire format"):
        take(config(directory, **quorum))
    assert not directory.exists()
    take_and_release(config(directory))
    assert take_and_release(config(directory, **quorum)).cluster_id


def test_a_second_directory_joins_the_first(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    first = take_and_release(config(one))
    both = take_and_release(config(one, two))
    assert both.cluster_id == first.cluster_id
    assert len(set(both.directory_ids.values())) == 2
    assert sorted(contents(two)) == ["meta.properties"]


def test_a_first_directory_that_is_blank_beside_a_known_one_is_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    take_and_release(config(one, two))
    shutil.rmtree(one)
    with pytest.raises(DirectoryRejected, match="metadata log, is blank"):
        take(config(one, two))
    assert not one.exists()


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_metadata_log_elsewhere_is_rejected_untouched(tmp_path: Path, is_copied: bool) -> None:
    """With an empty metadata log, the node would rename all logs to stray directories."""
    one, two = tmp_path / "one", tmp_path / "two"
    take_and_release(config(one, two))
    if is_copied:
        shutil.copytree(one / "__cluster_metadata-0", two / "__cluster_metadata-0")
    before = contents(one), contents(two)
    with pytest.raises(DirectoryRejected, match=f"set metadata.log.dir={one}, or remove __cluster_metadata-0"):
        take(config(two, one))
    assert (contents(one), contents(two)) == before
    if not is_copied:
        take_and_release(config(two, one, metadata_log_dir=str(one)))


def test_directories_of_two_clusters_are_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    take_and_release(config(one))
    take_and_release(config(two))
    with pytest.raises(DirectoryRejected, match="different clusters"):
        take(config(one, two))


def test_a_directory_that_cannot_be_locked_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A remounted read-only device is left out, unless it has the metadata log."""
    one, two = tmp_path / "one", tmp_path / "two"
    take_and_release(config(one, two))
    disk = FaultyDisk()
    disk.fail = lambda operation, path: broken(operation, path) if path == f"{two}/.lock" else None
    taken = take_and_release(config(one, two), disk)
    assert list(taken.directory_ids) == [str(one)]
    assert f"{two}/.lock" in caplog.text
    assert "its partitions are offline" in caplog.text
    with pytest.raises(DirectoryRejected, match="make the directory writable"):
        take(config(one, two, metadata_log_dir=str(two)), disk)


class ReadOnlyDisk(RealDisk):
    """Disk that rejects changes, as a read-only device does."""

    def _reject(self, path: str) -> DiskFailure:
        return DiskFailure("write", path, OSError(errno.EROFS, "Read-only file system"))

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        raise self._reject(path)

    def make_directory(self, path: str) -> None:
        raise self._reject(path)


def test_a_read_only_device_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DirectoryRejected, match="Read-only file system; make the directory writable"):
        take(config(tmp_path / "data"), ReadOnlyDisk())
    assert not (tmp_path / "data").exists()


def test_a_metadata_log_that_begins_after_a_snapshot_is_rejected(tmp_path: Path) -> None:
    """Topics are in the snapshot: without it, their logs would count as stray."""
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"v"))
    metadata = tmp_path / "__cluster_metadata-0"
    for path in metadata.glob("0*.log"):
        path.rename(metadata / "00000000000000000100.log")
    for path in metadata.glob("0*index"):
        path.unlink()
    content = bytearray((metadata / "00000000000000000100.log").read_bytes())
    position = 0
    while position < len(content):
        base = int.from_bytes(content[position : position + 8], "big")
        content[position : position + 8] = (base + 100).to_bytes(8, "big")
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    (metadata / "00000000000000000100.log").write_bytes(content)
    with pytest.raises(DirectoryRejected, match="begins at offset 100"):
        RunningBroker(tmp_path)
    assert (tmp_path / f"{topic}-0").is_dir()


needs_kafka = pytest.mark.skipif(
    not KAFKA.is_dir() or shutil.which("java") is None, reason="Apache Kafka is fetched by make compat"
)


@needs_kafka
def test_a_directory_formatted_by_kafka_is_served(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:19093\nlog.dirs={directory}\n"
    )
    tool = ["java", "-Xmx128m", "-cp", f"{KAFKA}/*", "kafka.tools.StorageTool"]
    cluster_id = "4L6g3nShT-eMCtK--X86sw"
    subprocess.run(
        [*tool, "format", "--standalone", "-t", cluster_id, "-c", str(properties)], check=True, capture_output=True
    )
    for _ in range(2):
        with RunningBroker(directory, {"node.id": "5"}) as broker, broker.client() as client:
            assert broker.server.cluster_id == cluster_id
            topic, _ = create_topic(client)
            produce(client, topic, batch(b"v"))
            assert values_in(fetch(client, topic).records) == [b"v"]


def test_locks_are_released_when_a_later_directory_is_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    take_and_release(config(one))
    two.mkdir()
    (two / "foreign").touch()
    with pytest.raises(DirectoryRejected):
        take(config(one, two))
    take_and_release(config(one))
