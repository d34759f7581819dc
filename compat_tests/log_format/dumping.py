"""Output of Kafka's DumpLogSegments and of `kwire log dump` for the same files, as rows that can be compared."""

import base64
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from compat_tests.harness.reference import class_path

MAIN = "org.apache.kafka.tools.DumpLogSegments"
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
FILES_AT_ONCE = 1500
"""Files of a run: one argument contains all their names, and the system limits its length."""

Rows = dict[str, list[tuple]]


class _Anything:
    """Value that equals every text: each tool shows bytes that are not UTF-8 in its own way."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None

    def __repr__(self) -> str:
        return "..."


ANYTHING = _Anything()

_FILE = re.compile(r"Dumping (.*)")
_BATCH = re.compile(
    r"baseOffset: (-?\d+) lastOffset: (-?\d+) count: (-?\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) "
    r"producerId: (-?\d+) producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) "
    r"isControl: (\w+) deleteHorizonMs: OptionalLong(\S+) position: (\d+) (\w+): (-?\d+) size: (\d+) magic: (\d+) "
    r"compresscodec: (\w+) crc: (\d+) isvalid: (\w+)"
)
_RECORD = re.compile(
    r"\| offset: (\d+) \w+: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[(.*?)\]"
    r"(?: endTxnMarker: (\w+) coordinatorEpoch: (\d+))?(?: key: (.*?))?(?: payload: (.*))?"
)
_PRODUCER = re.compile(
    r"producerId: (\d+) producerEpoch: (-?\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: OptionalLong(\S+) "
    r"lastTimestamp: (-?\d+)(?: firstSequence: -?\d+ lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: (-?\d+))?.*"
)
_ENTRIES = (
    ("offset entry", re.compile(r"offset: (\d+) position: (\d+)")),
    ("time entry", re.compile(r"timestamp: (-?\d+) offset: (\d+)")),
    (
        "aborted",
        re.compile(r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"),
    ),
)


def files_of(data: Path, partitions: Sequence[object]) -> list[str]:
    """Return the names, below the data directory, of files that both tools can show."""
    return [
        f"{partition}/{path.name}"
        for partition in partitions
        for path in sorted((data / str(partition)).iterdir())
        if path.suffix in SUFFIXES
    ]


def run_tool(data: Path, files: Sequence[str], *options: str) -> tuple[str, str]:
    """Run DumpLogSegments on the files; return its output and its error output."""
    output, errors = "", ""
    for at in range(0, len(files), FILES_AT_ONCE):
        command = ["java", *JVM, "-cp", class_path(), MAIN, *options, "--files", ",".join(files[at:][:FILES_AT_ONCE])]
        ran = subprocess.run(command, cwd=data, capture_output=True, check=True, timeout=120)
        output += ran.stdout.decode(errors="replace")
        errors += ran.stderr.decode(errors="replace")
    return output, errors


def rows_of_kafka(output: str) -> Rows:
    """Return Kafka's rows by file. Lines inside a value with line breaks belong to the preceding record."""
    rows: Rows = defaultdict(list)
    file = ""
    for line in output.split("\n"):
        if found := _FILE.fullmatch(line):
            file = found[1]
            rows[file] = []
        elif (row := _row_of_kafka(line)) is not None:
            rows[file].append(row)
    return rows


def _row_of_kafka(line: str) -> tuple | None:
    if line.startswith("baseOffset:") and (found := _BATCH.match(line)):
        return ("batch", *found.groups())
    if line.startswith("| offset:") and (found := _RECORD.fullmatch(line)):
        return ("record", *found.groups())
    if line.startswith("producerId:") and (found := _PRODUCER.fullmatch(line)):
        return ("producer", *found.groups())
    for kind, pattern in _ENTRIES:
        if found := pattern.fullmatch(line):
            return (kind, *found.groups())
    return None


def rows_of_kwire(data: Path, partitions: Sequence[object]) -> Rows:
    """Return the same rows from `kwire log dump`."""
    command = [sys.executable, "-m", "kwire", "log", "dump", "--records", "--format", "json", *map(str, partitions)]
    ran = subprocess.run(command, cwd=data, capture_output=True, check=True, timeout=300)
    rows: Rows = defaultdict(list)
    for line in ran.stdout.decode().splitlines():
        row = json.loads(line)
        if row["file"].endswith(SUFFIXES):
            rows[row["file"]].append(_ROWS[row["kind"]](row))
    return rows


def _batch(row: dict) -> tuple:
    numbers = ("base_offset", "last_offset", "record_count", "base_sequence", "last_sequence", "producer_id")
    first = [*numbers, "producer_epoch", "partition_leader_epoch", "is_transactional", "is_control"]
    last = ["position", "timestamp_type", "max_timestamp", "size", "magic", "codec", "crc", "crc_is_right"]
    horizon = f"[{row['base_timestamp']}]" if row["has_delete_horizon"] else ".empty"
    return ("batch", *_words(row, first), horizon, *_words(row, last))


def _record(row: dict) -> tuple:
    names = ",".join(name for name, _ in row["headers"])
    if "control" in row:
        # A marker's key has two 2-byte numbers; its value has a 2-byte and a 4-byte number.
        epoch = str(row["fields"]["coordinator_epoch"])
        return ("record", *_words(row, ["offset", "timestamp"]), "4", "6", names, row["control"], epoch, None, None)
    key, value = row["key"], row["value"]
    sizes = (_size(key), _size(value))
    return ("record", *_words(row, ["offset", "timestamp"]), *sizes, names, None, None, _text(key), _text(value))


def _producer(row: dict) -> tuple:
    first = row["current_transaction_first_offset"]
    epochs = _words(row, ["producer_id", "producer_epoch", "coordinator_epoch"])
    batch = _words(row, ["last_sequence", "last_offset", "offset_delta"])
    transaction = ".empty" if first < 0 else f"[{first}]"
    return ("producer", *epochs, transaction, str(row["last_timestamp"]), *batch)


def _entry(row: dict) -> tuple:
    return (row["kind"], *(str(value) for name, value in row.items() if name not in ("file", "kind")))


_ROWS = defaultdict(lambda: _entry, {"batch": _batch, "record": _record, "producer": _producer})


def _words(row: dict, names: Sequence[str]) -> list[str]:
    return [str(row[name]).lower() if isinstance(row[name], bool) else str(row[name]) for name in names]


def _size(value: str | dict | None) -> str:
    if value is None:
        return "-1"
    return str(len(value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])))


def _text(value: str | dict | None) -> object:
    if value is None:
        return None
    return value.split("\n")[0] if isinstance(value, str) else ANYTHING


# Complaints of DumpLogSegments


def gaps(rows: Rows) -> set[tuple[str, int, int]]:
    """Return (file, offset, next offset) of each gap that DumpLogSegments reports: it begins each file at -1."""
    found = set()
    for file, of_file in rows.items():
        before = -1
        for row in of_file:
            if row[0] == "record":
                offset = int(row[1])
                if offset != before + 1:
                    found.add((file, before, offset))
                before = offset
    return found


def complaints(errors: str, data: Path) -> tuple[set[tuple[str, int, int]], list[str]]:
    """Return (the same gaps from the error output, all other lines of it)."""
    found, others, file = set(), [], ""
    for line in errors.splitlines():
        if line.startswith("Non-consecutive offsets in "):
            file = line.removeprefix("Non-consecutive offsets in ").removeprefix(f"{data}/")
        elif match := re.fullmatch(r"  (-?\d+) is followed by (\d+)", line):
            found.add((file, int(match[1]), int(match[2])))
        else:
            others.append(line)
    return found, others


def not_of_empty_batches(lines: Sequence[str], rows: Rows) -> list[str]:
    """Return the lines without complaints about timestamps of batches that compaction left without records."""
    times = {row[14] for of_file in rows.values() for row in of_file if row[0] == "batch" and row[3] == "0"}
    mismatch = re.compile(r"\s*Index timestamp: (-?\d+), log timestamp: -1")
    excused = [line for line in lines if (found := mismatch.fullmatch(line)) and found[1] in times]
    titles = [line for line in lines if line.startswith("Found timestamp mismatch in ")]
    return [line for line in lines if line.strip() and line not in excused and not (excused and line in titles)]
