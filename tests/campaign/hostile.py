"""Cost of each API for the broker, relative to the bytes that a client sends for it: CPU time and memory.

    python -m tests.campaign.hostile

sends each attack of compat_tests/starvation, and batches with a high compression ratio, to one broker. It sends one
request at a time, and waits for its responses. The results of the last run are the table in docs/evidence/hostile.md.

Bounds: a request may take CPU_SECONDS_A_MB for each megabyte of request and response, plus CPU_SECONDS_LEAST. The
broker's memory may grow meanwhile by MEMORY_FACTOR times these bytes, plus MEMORY_LEAST for the allocator. For a batch
that was stored before, its bytes count as sent.
"""

from __future__ import annotations

import argparse
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.readiness import read_exactly
from compat_tests.starvation.attacks import ATTACKS, frame_of, frames_of
from compat_tests.starvation.attacks_on_records import list_offsets_packed, produce
from compat_tests.starvation.cpu import cpu_seconds, seconds_until_idle
from compat_tests.starvation.packing import packed_batch
from compat_tests.starvation.scene import COMPACTED, PACKED_RECORDS, Scene, prepare
from kwire.protocol.messages.produce import PartitionProduceData, TopicProduceData
from tests.campaign.evidence import FOLDER, current_commit
from tests.hostile.frames import bomb

CPU_SECONDS_A_MB = 1.0
CPU_SECONDS_LEAST = 0.002
MEMORY_FACTOR = 10
MEMORY_LEAST = 16 * 1024 * 1024
MEGABYTE = 1_000_000
MEBIBYTE = 1024 * 1024
SMALL_BYTES, SMALL_TIMES = 4096, 50
"""Small requests are sent several times, and their mean counts."""
ANSWER_SECONDS = 300.0
IDLE_SECONDS = 120.0
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COLUMNS = (
    "request",
    "sent bytes",
    "answered bytes",
    "CPU s",
    "CPU s per MB sent",
    "CPU s per MB sent and answered",
    "memory MiB",
    "over",
)
PAGE = FOLDER / "hostile.md"
TEXT = f"""# What requests cost the broker

Written by `make campaign HOSTILE=1` at {{commit}}, {{moment}}; tests/campaign/hostile.py says how. One request at a
time, on one broker with 1,000 topics and 2,000 groups, from its Python sources (not compiled). CPU is the broker's, all
threads, until it is idle again; memory is the largest resident set while it serves the request, less the one before.
Bounds: {CPU_SECONDS_A_MB:g} s of CPU for each MB sent and answered and {CPU_SECONDS_LEAST * 1000:g} ms; memory
{MEMORY_FACTOR} times the bytes sent and answered and {MEMORY_LEAST // MEBIBYTE} MiB.

{{within}} of {{count}} within both bounds.

| {" | ".join(COLUMNS)} |
|{"---|" * len(COLUMNS)}
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one request."""

    name: str
    sent_bytes: int
    answered_bytes: int
    cpu_seconds: float
    memory_bytes: int

    @property
    def both_bytes(self) -> int:
        return self.sent_bytes + self.answered_bytes

    @property
    def is_slow(self) -> bool:
        return self.cpu_seconds > CPU_SECONDS_A_MB * self.both_bytes / MEGABYTE + CPU_SECONDS_LEAST

    @property
    def is_large(self) -> bool:
        return self.memory_bytes > MEMORY_FACTOR * self.both_bytes + MEMORY_LEAST

    @property
    def over(self) -> str:
        return " and ".join(name for name, is_over in (("CPU", self.is_slow), ("memory", self.is_large)) if is_over)

    def line(self) -> str:
        cells = (
            self.name,
            self.sent_bytes,
            self.answered_bytes,
            f"{self.cpu_seconds:.4f}",
            f"{self.cpu_seconds * MEGABYTE / self.sent_bytes:.2f}",
            f"{self.cpu_seconds * MEGABYTE / self.both_bytes:.2f}",
            f"{self.memory_bytes / MEBIBYTE:.1f}",
            self.over,
        )
        return f"| {' | '.join(map(str, cells))} |\n"


class Measured:
    """Memory of a process according to /proc."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = Path(f"/proc/{pid}")

    def status_bytes(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024

    def forget_peak(self) -> None:
        """Reset the kernel's VmHWM."""
        (self._folder / "clear_refs").write_text("5")

    def wait_until_idle(self) -> None:
        """Wait until the process uses little CPU, because work may continue after a response."""
        assert seconds_until_idle(self.pid, IDLE_SECONDS) is not None, "the broker goes on after an answer"


def cost(name: str, bootstrap: str, measured: Measured, frames: list[bytes], stored_bytes: int = 0) -> Cost:
    """Send the requests, each after the response to the previous one."""
    times = SMALL_TIMES if sum(map(len, frames)) < SMALL_BYTES and not stored_bytes else 1
    measured.wait_until_idle()
    measured.forget_peak()
    memory, cpu = measured.status_bytes("VmRSS"), cpu_seconds(measured.pid)
    answered = sum(answers(bootstrap, frames * times))
    measured.wait_until_idle()
    return Cost(
        name=name,
        sent_bytes=sum(map(len, frames)) + stored_bytes,
        answered_bytes=answered // times,
        cpu_seconds=(cpu_seconds(measured.pid) - cpu) / times,
        memory_bytes=max(0, measured.status_bytes("VmHWM") - memory),
    )


def answers(bootstrap: str, frames: list[bytes]) -> Iterator[int]:
    """Yield the sizes of the responses. Raises ConnectionError if the broker closes the connection, as for invalid
    frames.
    """
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
        for frame in frames:
            connection.sendall(frame)
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            left = size
            while left:
                left -= len(connection.recv(min(left, 1 << 20)) or _closed())
            yield size + 4


def _closed() -> bytes:
    raise ConnectionError("the broker closed the connection within an answer")


def requests(scene: Scene) -> Iterator[tuple[str, Callable[[], list[bytes]], int]]:
    """Yield the name, the frames and the size of a stored batch for each measurement."""
    for attack in ATTACKS:
        stored = len(packed_batch(PACKED_RECORDS)) if attack.make is list_offsets_packed else 0
        yield attack.name, partial(frames_of, attack, scene), stored
    for codec, number in CODECS.items():
        yield f"Produce, a bomb in {codec} for a compacted topic", partial(produced, number), 0


def produced(codec: int) -> list[bytes]:
    data = [PartitionProduceData(index=0, records=bomb(codec))]
    return [frame_of(produce([TopicProduceData(name=COMPACTED, partition_data=data)]), 11)]


def run(directory: Path, only: str = "") -> list[Cost]:
    broker = KwireBroker(directory, free_ports(1)[0])
    costs: list[Cost] = []
    try:
        broker.start()
        scene = prepare(broker.bootstrap)
        assert broker.process is not None
        measured = Measured(broker.process.pid)
        for name, frames, stored_bytes in requests(scene):
            if only in name:
                costs.append(cost(name, broker.bootstrap, measured, frames(), stored_bytes))
                print(costs[-1].line(), end="", flush=True)
    finally:
        broker.kill()
    return costs


def write(costs: list[Cost], commit: str) -> None:
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    within = sum(not each.over for each in costs)
    text = TEXT.format(commit=commit, moment=moment, within=within, count=len(costs))
    PAGE.write_text(text + "".join(each.line() for each in costs))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="requests whose names contain this; writes no evidence")
    given = arguments.parse_args()
    commit = current_commit()
    with tempfile.TemporaryDirectory(prefix="kwire-hostile-") as directory:
        costs = run(Path(directory), given.only)
    if not given.only:
        write(costs, commit)
    over = [f"{each.name}: {each.over}" for each in costs if each.over]
    print("\n".join(over) or "all within their bounds")
    raise SystemExit(bool(over))


if __name__ == "__main__":
    main()
