"""Comparison of kwire and Apache Kafka's own classes: both replay metadata logs and write snapshots."""

import subprocess
from pathlib import Path

from compat_tests.harness.reference import class_path
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.image_records import records_of
from kwire.protocol.messages import metadata_records
from kwire.protocol.messages.metadata_records import decode_metadata_record, encode_metadata_record

PROGRAM = Path(__file__).with_name("Images.java")


def kafkas_snapshots(logs, directory):
    """Return Kafka's result for each log (a list of batches): the records of its snapshot, or its error."""
    path = directory / "logs"
    with path.open("w") as lines:
        for log in logs:
            lines.write(";".join(",".join(record.hex() for record in batch) for batch in log) + "\n")
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path()]
    done = subprocess.run([*command, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    return [_answer(line) for line in done.stdout.splitlines()]


def _answer(line):
    if line.startswith("failed: "):
        return line
    return [decode_metadata_record(bytes.fromhex(record)) for record in line.split(",") if record]


def image_of(records):
    """Return kwire's image of a snapshot's records."""
    return MetadataImage().apply(records, offset=0, epoch=0)


def snapshot_batches(image):
    """Return kwire's snapshot of an image as a log of one batch."""
    return [[encode_metadata_record(record) for record in records_of(image)] or [_NOTHING]]


_NOTHING = encode_metadata_record(metadata_records.NoOpRecord())
