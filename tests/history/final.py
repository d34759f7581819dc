"""The end of a run: wait until every transaction is decided, then read everything once more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.history.clients.common import KEYS, partition_of
from tests.history.clients.reader import consumer, record_of
from tests.history.journal import Journal
from tests.history.operations import ASSIGN, OK
from tests.history.timeline import LEVELS
from tests.support.raw_client import RawClient

STABLE_SECONDS = 30.0
"""Longer than a transaction's timeout and all that its abort takes."""
READ_SECONDS = 60.0
LIST_VERSION = 7
LATEST = -1


def end_of(client: RawClient, key: str, *, is_stable: bool) -> int:
    """The last stable offset, or the high watermark."""
    topic, partition = partition_of(key)
    asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST, current_leader_epoch=-1)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(is_stable), topics=topics)
    offset: int = client.ask(request, LIST_VERSION).topics[0].partitions[0].offset
    return offset


def settle(bootstrap_server: str, journal: Journal) -> None:
    """Nobody writes any more: what is open has to end by its timeout."""
    given_up = time.monotonic() + STABLE_SECONDS
    with RawClient(bootstrap_server) as client:
        for key in KEYS:
            while (stable := end_of(client, key, is_stable=True)) < (end := end_of(client, key, is_stable=False)):
                if time.monotonic() > given_up:
                    journal.note("final", "hanging", key=key, last_stable_offset=stable, end=end)
                    break
                time.sleep(0.1)


def read_all(bootstrap_server: str, journal: Journal) -> None:
    """Every key from its beginning to its end, at both levels."""
    for level in LEVELS:
        process = f"final-{level}"
        reading = consumer(bootstrap_server, level, enable_partition_eof=True)
        reading.assign([TopicPartition(*partition_of(key), OFFSET_BEGINNING) for key in KEYS])
        journal.note(process, "assign", keys=KEYS)
        ends = _read(reading, process, level, journal)
        reading.close()
        for key, end in ends.items():
            journal.note(process, "final", key=key, end=end, level=level)


def _read(reading: Any, process: str, level: str, journal: Journal) -> dict[str, int]:
    """Where each key ends, for those that were read so far."""
    ends: dict[str, int] = {}
    given_up = time.monotonic() + READ_SECONDS
    while len(ends) < len(KEYS) and time.monotonic() < given_up:
        complete = journal.invoke(process, "poll", level=level, mode=ASSIGN)
        messages = reading.consume(500, 1.0)
        complete(OK, records=[record_of(message) for message in messages if message.error() is None])
        for message in messages:
            if message.error() is not None and message.error().name() == "_PARTITION_EOF":
                ends[f"{message.topic()}-{message.partition()}"] = message.offset()
    return ends


def journals(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"))
