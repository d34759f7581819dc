"""Benchmark of a start with a million committed offsets; prints one JSON object. Run it as a script with `python -P`.

The log has only first commits, as after a million new offsets: compaction can remove none of them.
"""

import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path

from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.group.records import OffsetAndMetadata, encode_group_record, offset_commit_record
from kwire.kept_objects import KeptObjects
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.primitives import ZERO_UUID
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemClock, SystemRandomSource
from kwire.server.assembly.broker import start_broker
from kwire.server.settings.config import make_config

GROUPS, TOPICS, PARTITIONS = 1_000, 10, 100
"""Factors of a million offsets."""
STEP_SECONDS = 0.001


def settings(directory: str) -> dict[str, str]:
    return {"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}


async def make_topic(directory: str) -> None:
    server = await start_broker(make_config(settings(directory)))
    await server.services.topic_creator.create([GROUP_OFFSETS_TOPIC])
    await server.stop()


def fill(directory: str) -> None:
    """Write one batch for each group and topic."""
    clock = SystemClock()
    log = open_log(
        f"{directory}/{GROUP_OFFSETS_TOPIC}-0",
        topic=GROUP_OFFSETS_TOPIC,
        partition=0,
        config=LogConfig(),
        surroundings=Surroundings(disk=RealDisk(), clock=clock, random_source=SystemRandomSource()),
        was_clean_shutdown=True,
    )
    now_ms = clock.wall_ms()
    committed = OffsetAndMetadata(1, 0, "", now_ms, -1, ZERO_UUID, -1)
    for group in range(GROUPS):
        for topic in range(TOPICS):
            stored = [
                encode_group_record(offset_commit_record(f"group-{group}", f"topic-{topic}", partition, committed))
                for partition in range(PARTITIONS)
            ]
            batch = encode_batch([Record(key=key, value=value, timestamp=now_ms) for key, value in stored])
            log.append(bytes(batch), leader_epoch=max(0, log.leader_epochs.latest_epoch))
    log.close(clean=True)


async def longest_hold(held: list[float]) -> None:
    """Measure repeatedly how long other work has delayed a timer of the event loop."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(STEP_SECONDS)
        held.append(time.perf_counter() - before - STEP_SECONDS)


async def load(directory: str) -> dict[str, float]:
    held: list[float] = []
    started = time.perf_counter()
    # The broker serves no client before this returns, so no client is delayed.
    server = await start_broker(make_config(settings(directory)), count_loaded=KeptObjects().loaded)
    watch = asyncio.get_running_loop().create_task(longest_hold(held))
    await server.services.groups.loaded()
    seconds = time.perf_counter() - started
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    await server.stop()
    return {"seconds": seconds, "held_ms": max(held) * 1000}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kwire-bench-offsets-") as temporary:
        directory = str(Path(temporary) / "data")
        asyncio.run(make_topic(directory))
        fill(directory)
        print(json.dumps(asyncio.run(load(directory))))


if __name__ == "__main__":
    main()
