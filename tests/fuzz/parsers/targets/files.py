"""Targets of files: settings, checkpoints, snapshots, indexes, logs, and the tools that show them."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from kwire.chunks import at_once
from kwire.cli.cluster_directory import ClusterRejected, _read
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.cluster.directory import META_PROPERTIES, DirectoryRejected, MetaProperties, load_meta_properties
from kwire.cluster.patterns import Matcher, PatternRejectedError
from kwire.cluster.quorum.state import FILE_NAME as QUORUM_STATE
from kwire.cluster.quorum.state import QuorumState, load_quorum_state
from kwire.cluster.raft.snapshots import decode_snapshot, encode_snapshot
from kwire.log import checkpoints
from kwire.log.checkpoints import CorruptCheckpointError
from kwire.log.errors import CorruptIndexError, CorruptLogError
from kwire.log.index import OffsetIndex, TimeIndex
from kwire.log.inspection.dumping import Selection, can_be_dumped, dump_file
from kwire.log.inspection.reading import InspectionError
from kwire.log.producer_snapshots import CorruptSnapshotError
from kwire.log.producer_snapshots import decode_snapshot as decode_producers
from kwire.log.producer_snapshots import encode_snapshot as encode_producers
from kwire.log.producer_state import ProducerEntry, StoredBatch
from kwire.log.transaction_index import TransactionIndex
from kwire.properties_files import escape_value, read_properties
from kwire.protocol.compression import CompressionError
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.metadata_records import decode_metadata_record
from kwire.protocol.records import InvalidRecordsError, iterate_headers, seal
from kwire.server.settings.config import SettingError, load_config
from kwire.simulation.device import Device
from kwire.simulation.disk import SimulatedDisk
from tests.fuzz.parsers.target import Target
from tests.fuzz.parsers.targets.batches import DECOMPRESSED_MAX, batch_seeds
from tests.fuzz.parsers.targets.logins import text_of
from tests.fuzz.parsers.targets.messages import metadata_seeds
from tests.fuzz.silence import silent
from tests.log.support import everything, open_at, surroundings

DIRECTORY: Final = "/d"
STEM: Final = f"{DIRECTORY}/00000000000000000000"
ID: Final = UUID(int=7)
EPOCH_FILE: Final = "leader-epoch-checkpoint"


def disk_with(**files: bytes) -> SimulatedDisk:
    """Return a disk in memory with these files in DIRECTORY."""
    disk = SimulatedDisk(Device())
    disk.make_directory(DIRECTORY)
    for name, content in files.items():
        disk.open(f"{DIRECTORY}/{name}", create=True).append(content)
    return disk


# --- texts


def _read_properties(data: bytes) -> None:
    """Read a properties file: its values survive their escaping."""
    for value in read_properties(text_of(data)).values():
        assert read_properties(f"key={escape_value(value)}") == {"key": value}


def _properties_seeds() -> list[bytes]:
    texts = ("a=b\nc: d\n# e\nf g", "a=\\u0041\\\n  b\\t\r\n!x\r\\", " \\ =\\  ", "a\\:b=c\\\\\n\f x")
    return [text.encode() for text in texts]


def _settings_seeds() -> list[bytes]:
    combined = (
        "node.id=1",
        "listeners=SSL://:9093,C://[::1]:9094",
        "log.dirs=/a,/b",
        "process.roles=broker,controller",
        "controller.listener.names=C",
        "listener.security.protocol.map=SSL:SSL,C:PLAINTEXT",
        "controller.quorum.voters=1@localhost:9094",
        "advertised.listeners=SSL://host:1",
        "inter.broker.listener.name=SSL",
    )
    alone = (
        "listeners=PLAINTEXT://127.0.0.1:0",
        "log.retention.ms=-1",
        "quota.window.num=11",
        "super.users=User:a;User:b",
    )
    wrong = ("queued.max.request.bytes=1",), ("max.connections.per.ip.overrides=127.0.0.1:5,a:b",)
    login = ("listener.name.sasl.scram-sha-256.sasl.jaas.config=a required;", "ssl.keystore.type=PEM")
    return ["\n".join(lines).encode() for lines in (combined, alone, *wrong, login)]


def _read_topic_value(data: bytes) -> None:
    """Parse a value of the topic configuration that the first byte chooses."""
    keys = list(TOPIC_KEYS.values())
    parse(keys[(data[0] if data else 0) % len(keys)], text_of(data[1:]))


def _topic_seeds() -> list[bytes]:
    texts = ("1", "-1", "0.5", "true", "gzip", "delete,compact", "0:1,2:3", "*", "1e400", "LogAppendTime", "")
    return [bytes([number]) + text.encode() for number in range(len(TOPIC_KEYS)) for text in texts]


def _match(data: bytes) -> None:
    pattern, _, text = text_of(data).partition("\n")
    matcher = Matcher()
    at_once(matcher.matches(at_once(matcher.compile(pattern)), text))


def _pattern_seeds() -> list[bytes]:
    texts = (
        (r"a(b|c)*d{2,3}?", "dbcd"),
        (r"[^a-z\d\]]+.", "AB"),
        (r"^x\.y$", "x.y"),
        (r"(?:a?){20}", "aaa"),
        (r"\x41\u0042\t", "AB\t"),
    )
    return ["\n".join(each).encode() for each in texts]


# --- files of directories


def _read_meta(data: bytes) -> None:
    found = load_meta_properties(disk_with(**{META_PROPERTIES: data}), DIRECTORY)
    assert found is not None
    assert load_meta_properties(disk_with(**{META_PROPERTIES: found.to_bytes()}), DIRECTORY) == found


def _read_quorum_state(data: bytes) -> None:
    found = load_quorum_state(disk_with(**{QUORUM_STATE: data}), DIRECTORY)
    assert load_quorum_state(disk_with(**{QUORUM_STATE: found.to_bytes()}), DIRECTORY) == found


def _quorum_seeds() -> list[bytes]:
    kafkas = b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    return [
        QuorumState().to_bytes(),
        QuorumState(leader_id=3, leader_epoch=9, voted_directory_id=ID).to_bytes(),
        kafkas,
    ]


def _read_offsets(data: bytes) -> None:
    found = checkpoints.parse_offsets(data, "it")
    disk = disk_with()
    checkpoints.write_offsets(disk, f"{DIRECTORY}/x", found)
    assert checkpoints.read_offsets(disk, f"{DIRECTORY}/x") == found


def _read_epochs(data: bytes) -> None:
    found = checkpoints.parse_epochs(data, "it")
    assert checkpoints.parse_epochs(checkpoints.format_epochs(found), "it") == found


def _read_partition_metadata(data: bytes) -> None:
    found = checkpoints.parse_partition_metadata(data, "it")
    assert checkpoints.parse_partition_metadata(checkpoints.format_partition_metadata(found), "it") == found


def _read_clean_shutdown(data: bytes) -> None:
    epoch = checkpoints.parse_clean_shutdown(data)
    assert checkpoints.parse_clean_shutdown(checkpoints.format_clean_shutdown(epoch)) == epoch


def _read_cluster(data: bytes) -> None:
    with _files({"cluster.properties": data}) as directory:
        _read(directory / "cluster.properties")


def _cluster_seeds() -> list[bytes]:
    text = "directory=/x\ncluster.id=a\nbrokers=3\ncontrollers=0\nports=1,2,3,4,5,6\ndirectory.ids=a,b,c\n"
    return [text.encode(), text.replace("3", "-1").encode()]


# --- files of logs


def _read_producers(data: bytes) -> None:
    """Read a producer snapshot, also one whose CRC is made right."""
    sealed = data[:2] + struct.pack(">I", _crc(data[6:])) + data[6:]
    for each in (data, sealed):
        try:
            found = decode_producers(each, "it")
        except CorruptSnapshotError:
            continue
        assert decode_producers(encode_producers(found), "it") == found


def _crc(data: bytes) -> int:
    batch = bytearray(21) + data
    seal(batch, 0, len(batch))
    return int(struct.unpack_from(">I", batch, 17)[0])


def _producer_seeds() -> list[bytes]:
    entries = [ProducerEntry(producer_id=number, producer_epoch=1) for number in range(3)]
    entries[1].batches.append(StoredBatch(5, 9, 2, 1000))
    return [encode_producers(entries[:count]) for count in range(4)]


def _read_offset_index(data: bytes) -> None:
    index = OffsetIndex(disk_with(**{f"{Path(STEM).name}.index": data}), STEM, 0, load=True)
    index.load()
    for offset, position in index.entries():
        assert index.lookup(offset) == position


def _read_time_index(data: bytes) -> None:
    index = TimeIndex(disk_with(**{f"{Path(STEM).name}.timeindex": data}), STEM, 0, load=True)
    index.load()
    for timestamp, offset in index.entries():
        assert index.lookup(timestamp) <= offset


def _read_transaction_index(data: bytes) -> None:
    index = TransactionIndex(disk_with(**{f"{Path(STEM).name}.txnindex": data}), STEM)
    index.entries()
    index.truncate(1000)
    assert all(entry.last_offset < 1000 for entry in index.entries())


def _read_snapshot(data: bytes) -> None:
    """Read a snapshot of the metadata log, with right CRCs."""
    content = bytearray(data)
    for position, header in iterate_headers(bytes(content)):
        seal(content, position, header.size_in_bytes)
    decode_snapshot(bytes(content))


def _snapshot_seeds() -> list[bytes]:
    records = [decode_metadata_record(each) for each in metadata_seeds()[:20]]
    return [
        b"".join(encode_snapshot(records[:count], epoch=1, now_ms=1, last_contained_timestamp_ms=1))
        for count in (0, 1, 9)
    ]


_LOG_FILES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _open_log(data: bytes) -> None:
    """Open a log with these files: it serves whole batches, and a log that is opened again is the same."""
    parts = _parts(data[1:], len(_LOG_FILES) + 1)
    files = {f"{Path(STEM).name}{suffix}": part for suffix, part in zip(_LOG_FILES, parts, strict=False) if part}
    files[EPOCH_FILE] = parts[-1]
    disk = disk_with(**files)
    with silent("kwire"):
        log = open_at(Path(DIRECTORY), world=surroundings(disk), clean=bool(data and data[0] & 1))  # type: ignore[arg-type]
        records = everything(log)
        assert all(log.log_start_offset <= record.offset < log.log_end_offset for record in records)
        end = log.log_end_offset
        log.close(clean=True)
        again = open_at(Path(DIRECTORY), world=surroundings(disk), clean=True)  # type: ignore[arg-type]
        assert again.log_end_offset == end
        assert everything(again) == records


def _parts(data: bytes, count: int) -> list[bytes]:
    """Split an input: two bytes of size before each part; the first part is the rest after the others."""
    parts = []
    position = 0
    for _ in range(count - 1):
        size = int.from_bytes(data[position : position + 2])
        parts.append(data[position + 2 : position + 2 + size])
        position += 2 + size
    return [data[position:], *parts]


def _joined(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(2) + part for part in parts[1:]) + parts[0]


def _log_seeds() -> list[bytes]:
    index, times = struct.pack(">ii", 2, 0), struct.pack(">qi", 1_700_000_000_001, 2)
    epochs = b"0\n1\n0 0\n"
    none = (b"",) * 5
    batches = batch_seeds()
    whole = [bytes(1) + _joined(batch, *none) for batch in batches]
    return [
        *whole,
        b"\1" + _joined(batches[0], index, times, b"", _producer_seeds()[2], epochs),
        b"\1" + _joined(*none, b""),
    ]


# --- the tools that show files

_SHOWN: Final = tuple(
    f"{prefix}{name}"
    for prefix in ("t-0/", "__cluster_metadata-0/", "__consumer_offsets-0/", "__transaction_state-0/")
    for name in (
        *(f"{Path(STEM).name}{suffix}" for suffix in _LOG_FILES),
        f"{Path(STEM).name}-0000000001.checkpoint",
        EPOCH_FILE,
        checkpoints.HIGH_WATERMARK_FILE,
        checkpoints.PARTITION_METADATA_FILE,
        checkpoints.CLEAN_SHUTDOWN_FILE,
        META_PROPERTIES,
        QUORUM_STATE,
    )
)


_MEMORY: Final = "/dev/shm"
"""Directory in memory, on Linux."""


@contextmanager
def _files(contents: dict[str, bytes]) -> Iterator[Path]:
    """Write files into a temporary directory in memory, if there is one."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-parser-", dir=_MEMORY if Path(_MEMORY).is_dir() else None))
    try:
        for name, content in contents.items():
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        yield directory
    finally:
        shutil.rmtree(directory)


def _dump(data: bytes) -> None:
    """Show the file whose name the first byte chooses."""
    name = _SHOWN[(data[0] if data else 0) % len(_SHOWN)]
    with _files({name: data[1:]}) as directory:
        assert can_be_dumped(str(directory / name))
        for _ in dump_file(str(directory / name), Selection(records=True)):
            pass


def _dump_seeds() -> list[bytes]:
    contents = [
        *batch_seeds()[:4],
        _producer_seeds()[2],
        b"0\n1\n0 0\n",
        b"0\n1\nt 0 5\n",
        b'{"a":1}',
        b"a=b",
        *_snapshot_seeds(),
    ]
    return [bytes([number]) + content for number in range(len(_SHOWN)) for content in contents]


_METADATA: Final = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n"
_META: Final = MetaProperties(cluster_id="c", node_id=1, directory_id=ID).to_bytes()
_TABLE: Final = (b"", b"0\n0\n", b"0\n2\na 0 5\nb 1 9223372036854775807\n", b"0\n2\n0 0\n3 7\n")
_ENTRIES: Final = struct.pack(">iiii", 1, 0, 5, 100)
_TIMES: Final = struct.pack(">qiqi", 1000, 1, 2000, 5)
_ABORTED: Final = struct.pack(">hqqqqhqqqq", 0, 1, 0, 5, 6, 0, 2, 7, 1005, 8)


def _fixed(*inputs: bytes) -> Callable[[], Sequence[bytes]]:
    return lambda: inputs


_CHECKPOINT: Final = (CorruptCheckpointError,)
_REJECTED: Final = (DirectoryRejected,)
TEXTS: Final = [
    Target("properties", _read_properties, (ValueError,), _properties_seeds),
    Target("server settings", lambda data: load_config(text_of(data)), (SettingError,), _settings_seeds),
    Target("topic configuration", _read_topic_value, (ConfigError,), _topic_seeds),
    Target("pattern", _match, (PatternRejectedError,), _pattern_seeds, 20_000),
]
FILES: Final = [
    Target("meta.properties", _read_meta, _REJECTED, _fixed(_META, _META.replace(b"=c", b"=a\\\\b"))),
    Target("quorum-state", _read_quorum_state, _REJECTED, _quorum_seeds),
    Target("offset checkpoint", _read_offsets, _CHECKPOINT, _fixed(*_TABLE)),
    Target("leader-epoch-checkpoint", _read_epochs, _CHECKPOINT, _fixed(*_TABLE)),
    Target("partition.metadata", _read_partition_metadata, _CHECKPOINT, _fixed(_METADATA)),
    Target("clean shutdown", _read_clean_shutdown, (), _fixed(b'{"version":0,"brokerEpoch":5}', b"[[1]]", b"")),
    Target("cluster.properties", _read_cluster, (ClusterRejected,), _cluster_seeds),
    Target("producer snapshot", _read_producers, (), _producer_seeds),
    Target("offset index", _read_offset_index, (CorruptIndexError,), _fixed(b"", _ENTRIES)),
    Target("time index", _read_time_index, (CorruptIndexError,), _fixed(b"", _TIMES)),
    Target("transaction index", _read_transaction_index, (), _fixed(b"", _ABORTED)),
    Target(
        "metadata snapshot",
        _read_snapshot,
        (InvalidRecordsError, ProtocolError, CompressionError),
        _snapshot_seeds,
        DECOMPRESSED_MAX,
    ),
    Target("partition log", _open_log, (CorruptLogError,), _log_seeds, 16 * DECOMPRESSED_MAX),
    Target("shown file", _dump, (InspectionError,), _dump_seeds, 16 * DECOMPRESSED_MAX),
]
