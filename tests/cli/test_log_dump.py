"""The command `kwire log dump` on a directory that kwire wrote."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.cluster.formatting.formatting import format_directory
from kwire.log.disk import RealDisk
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kwire.protocol.messages.group_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
)
from kwire.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kwire.protocol.records import Record, encode_batch, iterate_headers
from kwire.protocol.uuids import uuid_to_text
from tests.log.inspection.support import TOPIC_ID, write_directory
from tests.log.support import NOW_MS


def dump(*arguments: object, status: int = 0) -> list[dict[str, Any]]:
    ended = CliRunner().invoke(main, ["log", "dump", "--format", "json", *map(str, arguments)])
    assert ended.exit_code == status, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_batch_of_a_segment_is_shown(tmp_path):
    partition = write_directory(tmp_path / "data")
    segment = min(partition.glob("*.log"))
    rows = dump(segment)
    expected = [(at, *header.values()[:4]) for at, header in iterate_headers(segment.read_bytes())]
    found = [
        (row["position"], row["base_offset"], row["size"] - 12, row["partition_leader_epoch"], row["magic"])
        for row in rows
    ]
    assert found == expected
    assert [row["codec"] for row in rows[:4]] == ["none", "gzip", "snappy", "lz4"]
    assert all(row["crc_is_right"] for row in rows)


def test_records_are_shown_as_text_or_base64(tmp_path):
    partition = write_directory(tmp_path / "data")
    rows = [row for row in dump("--records", *sorted(partition.glob("*.log"))) if row["kind"] == "record"]
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert (rows[0]["key"], rows[0]["value"], rows[0]["timestamp"]) == ("key", "one", NOW_MS)
    assert next(row for row in rows if "control" in row)["control"] == "ABORT"
    assert rows[-2]["value"].keys() == {"base64"}
    assert rows[-1]["value"] == "café"


def test_offset_limit_and_bytes_select(tmp_path):
    segment = min(write_directory(tmp_path / "data").glob("*.log"))
    rows = dump(segment)
    assert dump(segment, "--offset", rows[2]["last_offset"]) == rows[2:]
    assert dump(segment, "--limit", 1, "--offset", 1) == rows[:1]
    assert dump(segment, "--max-bytes", rows[0]["size"] + rows[1]["size"]) == rows[:2]


def test_a_directory_is_shown_with_all_its_files(tmp_path):
    write_directory(tmp_path / "data")
    rows = dump(tmp_path / "data")
    by_file = {Path(row["file"]).name: row for row in rows}
    assert by_file["partition.metadata"]["topic_id"] == uuid_to_text(TOPIC_ID)
    assert by_file[".kafka_cleanshutdown"]["content"]["brokerEpoch"] == 9
    assert by_file["meta.properties"]["cluster.id"] == "cluster"
    end = by_file["recovery-point-offset-checkpoint"]["offset"]
    assert by_file["replication-offset-checkpoint"]["offset"] == end
    assert {row["kind"] for row in rows} == {
        "batch", "offset entry", "time entry", "aborted", "producer", "epoch", "checkpoint", "partition", "properties",
        "kafka_cleanshutdown",
    }  # fmt: skip
    assert [row["epoch"] for row in rows if row["kind"] == "epoch"] == [0, 1, 3]


def test_metadata_and_committed_offsets_are_decoded_by_name(tmp_path):
    format_directory(
        RealDisk(), str(tmp_path), cluster_id="c", node_id=1, directory_id=uuid.UUID(int=1),
        controller_endpoint=("CONTROLLER", "localhost", 9093), now_ms=NOW_MS,
    )  # fmt: skip
    rows = [row for row in dump("--records", tmp_path) if row["kind"] == "record"]
    assert {row.get("record") or row["control"] for row in rows} == {
        "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS", "FeatureLevelRecord"
    }  # fmt: skip
    offsets = tmp_path / "__consumer_offsets-3"
    offsets.mkdir()
    key = encode_group_key(OffsetCommitKey(group="g", topic="t", partition=2))
    value = encode_group_value(OffsetCommitValue(offset=41, metadata="", commit_timestamp=NOW_MS))
    records = [Record(key=key, value=value), Record(key=key, value=None), Record(key=b"\x00\x63odd", value=b"x")]
    (offsets / f"{0:020d}.log").write_bytes(encode_batch(records))
    commit, tombstone, odd = [row for row in dump("--records", offsets) if row["kind"] == "record"]
    assert (commit["record"], commit["key"]) == ("OffsetCommit", {"group": "g", "topic": "t", "partition": 2})
    assert commit["value"]["offset"] == 41
    assert tombstone["value"] is None
    assert "unknown" in odd["undecodable"]


def test_records_of_every_coordinator_are_decoded(tmp_path):
    written = [
        ("__consumer_offsets-0", 3, ConsumerGroupMetadataKey(group_id="g"), 0, ConsumerGroupMetadataValue(epoch=7)),
        ("__transaction_state-9", 0, TransactionLogKey(transactional_id="x"), 1, TransactionLogValue(producer_id=5)),
    ]
    for directory, key_type, key, version, value in written:
        (tmp_path / directory).mkdir()
        parts = [bytearray(key_type.to_bytes(2)), bytearray(version.to_bytes(2))]
        encode(key, 0, parts[0])
        encode(value, version, parts[1])
        record = Record(key=bytes(parts[0]), value=bytes(parts[1]))
        (tmp_path / directory / f"{0:020d}.log").write_bytes(
            encode_batch([record, Record(key=record.key, value=b"\x7f")])
        )
    rows = [row for row in dump("--records", tmp_path) if row["kind"] == "record"]
    assert [row.get("record") for row in rows] == ["ConsumerGroupMetadata", None, "TransactionLog", None]
    assert (rows[0]["key"], rows[0]["value"]["epoch"]) == ({"group_id": "g"}, 7)
    assert rows[2]["value"]["producer_id"] == 5
    assert all(row["undecodable"] for row in rows[1::2])


def test_damage_is_printed_and_sets_the_exit_status(tmp_path):
    segment = min(write_directory(tmp_path / "data").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data[:-5])
    rows = dump(segment, status=1)
    assert rows[0]["crc_is_right"] is False
    assert rows[0]["crc_found"] != rows[0]["crc"]
    assert rows[-1]["kind"] == "damage"


@pytest.mark.parametrize("name", ["nowhere.log", "photo.jpg", "x.index", "folder.log/no", "pipe.log"])
def test_an_unreadable_file_is_named_in_one_line(tmp_path, name):
    (tmp_path / "photo.jpg").write_bytes(b"x")
    (tmp_path / "x.index").write_bytes(bytes(8))
    os.mkfifo(tmp_path / "pipe.log")
    ended = CliRunner().invoke(main, ["log", "dump", str(tmp_path / name)])
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("kwire: ")
    assert name in line


def test_text_steers_no_terminal(tmp_path):
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(encode_batch([Record(key=b"a\x1b[31m\xc2\x9b", value=b'say "hi"', headers=[("h", b"\xff")])]))
    ended = CliRunner().invoke(main, ["log", "dump", "--records", str(segment)])
    assert ended.exit_code == 0
    assert "\x1b" not in ended.stdout
    assert "\x9b" not in ended.stdout
    assert "last_offset=0" in ended.stdout
    assert '    record offset=0 timestamp=-1 key="a' in ended.stdout


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path):
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(bytes(encode_batch([Record(value=b"x")])) * 3000)
    with subprocess.Popen(
        [sys.executable, "-m", "kwire", "log", "dump", str(segment)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_no_bytes_make_it_fail(tmp_path):
    """Each flipped byte of the files, and each file of random bytes, must give a documented exit status."""
    partition = write_directory(tmp_path / "data")
    noise = random.Random(1)
    for path in [*partition.iterdir(), tmp_path / "data" / "meta.properties"]:
        whole = path.read_bytes()
        for _ in range(12):
            data = bytearray(whole)
            for _ in range(noise.randint(1, 3)):
                if data:
                    data[noise.randrange(len(data))] ^= 1 << noise.randrange(8)
            path.write_bytes(data)
            ended = CliRunner().invoke(main, ["log", "dump", "--records", str(path)])
            assert ended.exit_code in (0, 1), (path, ended)
            path.write_bytes(whole)
