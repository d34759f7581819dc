"""Generator of the data directories from an earlier kwire on which the tests of this folder start.

    git archive COMMIT kwire pyproject.toml | tar -x -C SOURCES
    python -m tests.upgrade.make_kept SOURCES NAME COMMIT

starts the kwire in the folder SOURCES and uses it with confluent-kafka. It writes records with every codec, a compacted
topic, commits of a group, and transactions. Then it stops the broker, and stores kept/NAME.tar.xz and kept/NAME.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

KEPT = Path(__file__).with_name("kept")
READY = "kwire: serving Kafka on "
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC, COMPACTED, TRANSACTIONAL, GROUP = "kept", "kept-compacted", "kept-transactional", "kept-group"
TIMESTAMP_MS = 1_790_000_000_000
SECONDS = 30
OVERRIDES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.initial.task.delay.ms": "3600000",
    "log.index.size.max.bytes": "4096",
}


def main() -> None:
    sources, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        overrides = OVERRIDES | {"log.dirs": str(data)}
        command = [sys.executable, "-m", "kwire", "server"]
        command += [part for key, value in overrides.items() for part in ("--override", f"{key}={value}")]
        process = subprocess.Popen(
            command, cwd=scratch, env=os.environ | {"PYTHONPATH": str(sources)}, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith(READY))
            written = {"commit": sys.argv[3]} | write(ready.removeprefix(READY).partition(",")[0])
        finally:
            process.terminate()
            assert process.wait(SECONDS) == 0
        keep(data, name, written)


def write(bootstrap: str) -> dict[str, Any]:
    """Write the data and return the expected contents."""
    make_topics(bootstrap)
    values: list[list[str]] = [[], []]
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
        for index in range(20):
            value = f"{codec} {index} " + "x" * 50
            place = {"partition": number % 2, "key": f"k{index}", "timestamp": TIMESTAMP_MS + index}
            producer.produce(TOPIC, value, on_delivery=must_be_stored, **place)
            values[number % 2].append(value)
        assert producer.flush(SECONDS) == 0
    commit_offset(bootstrap)
    return {
        "values": values,
        "compacted": write_compacted(bootstrap),
        "committed": 7,
        "transactional": write_transactions(bootstrap),
    }


def must_be_stored(error: Any, _: Any) -> None:
    assert error is None, error


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(TOPIC, 2, 1, config={"retention.ms": "-1"}),
        NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic(TRANSACTIONAL, 1, 1, config={"retention.ms": "-1"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(SECONDS)


def write_compacted(bootstrap: str) -> dict[str, str]:
    producer = Producer({"bootstrap.servers": bootstrap})
    latest = {}
    for number in range(30):
        key = f"k{number % 5}"
        latest[key] = f"v{number}"
        producer.produce(COMPACTED, latest[key], key=key, partition=0, on_delivery=must_be_stored)
    assert producer.flush(SECONDS) == 0
    return latest


def commit_offset(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    consumer.close()


def write_transactions(bootstrap: str) -> list[str] | None:
    """Write transactions and return the committed values; None if the version does not support transactions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "kept-id", "log_level": 0})
    try:
        producer.init_transactions(10)
    except Exception as error:  # noqa: BLE001 whatever that kwire answers
        print(f"no transactions: {error}")
        return None
    for number, ends in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(TRANSACTIONAL, f"transaction {number}", partition=0)
        assert producer.flush(SECONDS) == 0  # records aborted before they are sent are never stored
        ends(SECONDS)
    return ["transaction 0", "transaction 2"]


def keep(data: Path, name: str, written: dict[str, Any]) -> None:
    KEPT.mkdir(exist_ok=True)
    with tarfile.open(KEPT / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        archive.add(data, "data", filter=_without_owner)
    (KEPT / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith(".lock"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
