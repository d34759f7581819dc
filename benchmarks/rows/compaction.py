"""Speed of compacting the dirty part of a topic's log, on one core."""

import contextlib
import os
import random
import time
from pathlib import Path

from benchmarks.brokers import COMPARED, Run
from benchmarks.rows.engine import Figures
from benchmarks.topics import delete_topic
from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.records import Record, encode_batch

TOPIC, BROKER = 2, 4
SEGMENT_BYTES = 32 * 1024 * 1024
WARM_UP_MEGABYTES = 64
MEGABYTES = 256
REPETITIONS = 3
RECORDS = 500
VALUE_BYTES = range(50, 150)
DIFFERENT_BATCHES = 400
"""Batches that are repeated; together they have 200,000 keys."""
SECONDS = 60.0


def compactions() -> Figures:
    """Measure megabytes a second of closed segments: values of about 100 bytes in batches of 500, most obsolete."""
    rates = {}
    for name in COMPARED:
        with Run(name) as run:
            rates[name] = _on_one_core(run)
    return {"compaction on one core, MB/s": rates}


def _on_one_core(run: Run) -> list[float]:
    assert run.broker.process is not None
    with Peer(run.broker.bootstrap) as peer:
        _alter(peer, BROKER, "", "log.cleaner.backoff.ms", "50")
        before = os.sched_getaffinity(run.broker.process.pid)
        _pin(run, {min(before)})
        try:
            _rate(run, peer, "compacted-first", WARM_UP_MEGABYTES)
            return [_rate(run, peer, f"compacted-{number}", MEGABYTES) for number in range(REPETITIONS)]
        finally:
            _pin(run, before)


def _rate(run: Run, peer: Peer, topic: str, megabytes: int) -> float:
    """Fill a topic with compaction blocked, then allow it, and time it until the checkpoint has the topic."""
    # The dirty ratio is never above 1, so compaction does not start yet.
    peer.create_topic(topic, cleanup_policy="compact", segment_bytes=SEGMENT_BYTES, min_cleanable_dirty_ratio=1.0)
    closed = _fill(peer, topic, megabytes * 1024 * 1024)
    started = time.perf_counter()
    _alter(peer, TOPIC, topic, "min.cleanable.dirty.ratio", "0.01")
    checkpoint = run.directory / "data" / "cleaner-offset-checkpoint"
    eventually(lambda: f"\n{topic} 0 " in checkpoint.read_text(), f"the compaction of {topic}", SECONDS)
    seconds = time.perf_counter() - started
    delete_topic(run, topic)
    return closed / 1e6 / seconds


def _fill(peer: Peer, topic: str, size: int) -> int:
    """Fill the topic; return the bytes in closed segments."""
    random_source = random.Random(7)
    batches = [_batch(random_source) for _ in range(DIFFERENT_BATCHES)]
    written = 0
    while written < size:
        for batch in batches:
            assert peer.produce(topic, batch, acks=1).error_code == 0
            written += len(batch)
    return written - written % SEGMENT_BYTES


def _batch(random_source: random.Random) -> bytes:
    records = [
        Record(
            key=b"user-%08d" % random_source.randrange(DIFFERENT_BATCHES * RECORDS),
            value=random_source.randbytes(random_source.choice(VALUE_BYTES)),
            timestamp=1_720_000_000_000 + index,
        )
        for index in range(RECORDS)
    ]
    return bytes(encode_batch(records))


def _alter(peer: Peer, kind: int, name: str, setting: str, value: str) -> None:
    config = IncrementalAlterConfigsAlterableConfig(name=setting, config_operation=0, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    (answer,) = peer.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    assert answer.error_code == 0, answer


def _pin(run: Run, cores: set[int]) -> None:
    """Pin every thread to these cores; processes that it starts later inherit them."""
    assert run.broker.process is not None
    for thread in Path(f"/proc/{run.broker.process.pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(int(thread.name), cores)
