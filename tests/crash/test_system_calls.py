"""System calls of the real process: it changes its directories only through kwire.log.disk, as strace shows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.crash import system_calls
from tests.support.processes import SECONDS, ServerProcess, overrides
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce
from tests.support.waiting import eventually

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets_topic_num_partitions": "2",
    "log_segment_delete_delay_ms": "0",
    "log_initial_task_delay_ms": "0",
    "log_retention_check_interval_ms": "100",
}

LOG_SETTINGS: dict[str, Any] = {"flush.messages": 1, "segment.bytes": 1 << 20, "retention.bytes": 1 << 20}


def use(bootstrap_server: str) -> str:
    """Use a broker and return its deleted topic: topics, flushed records in several segments, offsets, a deletion."""
    with RawClient(bootstrap_server) as client:
        kept, _ = create_topic(client, 2, **LOG_SETTINGS)
        gone, _ = create_topic(client)
        for number in range(12):
            produce(client, kept, batch(b"%d" % number + bytes(400_000)))
            produce(client, gone, batch(b"%d" % number))
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
        eventually(lambda: commit(client, kept) == 0, "the coordinator is there")
        deleted = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=gone)], timeout_ms=5000), 6)
        assert [each.error_code for each in deleted.responses] == [0]
    return gone


def commit(client: RawClient, topic: str) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = OffsetCommitRequest(
        group_id="readers", topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    return int(client.ask(request, 8).topics[0].partitions[0].error_code)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_all_writes_of_a_server_go_through_the_disk_class(tmp_path: Path) -> None:
    trace, reported, data = tmp_path / "trace", tmp_path / "told", tmp_path / "data"
    runner = [sys.executable, "-m", "tests.crash.watched_server", str(reported)]
    process = subprocess.Popen(
        [*system_calls.command(trace), *runner, *overrides(**SETTINGS, log_dirs=str(data))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        running = ServerProcess(process)
        server = int(reported.read_text().split()[1])
        try:
            gone = use(running.bootstrap_server)
        finally:
            os.kill(server, signal.SIGTERM)
        assert process.wait(SECONDS) == 0, running.rest()
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()
    seen = system_calls.changes(trace, data)
    asked: Counter[tuple[str, str]] = Counter()
    for line in reported.read_text().splitlines()[1:]:
        kind, path = line.split("\t")
        if Path(path).is_relative_to(data):
            asked[kind, path] += 1
    assert seen == asked
    kinds = Counter(kind for kind, _ in seen.elements())
    assert all(kinds[kind] for kind in ("create", "write", "sync", "rename", "make")), kinds
    assert seen["rename", str(data / f"{gone}-0")] == 1


def test_calls_are_read_from_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(
        '7 openat(AT_FDCWD</home>, "/d/a.log", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 9</d/a.log>\n'
        '7 openat(AT_FDCWD</home>, "/d/a.log", O_RDONLY) = 9</d/a.log>\n'
        '7 pwrite64(9</d/a.log>, ""..., 75, 0 <unfinished ...>\n'
        "8 fsync(10</d>) = 0\n"
        "7 <... pwrite64 resumed>) = 75\n"
        '7 rename("/d/a.log", "/d/b.log") = 0\n'
        '7 mkdir("/d/c", 0700) = -1 EEXIST (File exists)\n'
        '7 unlink("/elsewhere") = 0\n'
        '7 unlinkat(AT_FDCWD</d>, "b.log", 0) = 0\n'
        "7 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 9</d/a.log>, 0) = 0x7f\n"
        "7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 9</d/a.log>, 0) = 0x7f\n"
        "7 +++ exited with 0 +++\n"
    )
    assert system_calls.changes(trace, Path("/d")) == {
        ("create", "/d/a.log"): 1,
        ("write", "/d/a.log"): 1,
        ("sync", "/d"): 1,
        ("rename", "/d/a.log"): 1,
        ("remove", "/d/b.log"): 1,
        ("map", "/d/a.log"): 1,
    }
