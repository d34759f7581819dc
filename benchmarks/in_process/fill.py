"""Fill a topic's partitions in the log directory of a stopped broker: `python -P fill.py DIRECTORY TOPIC MEGABYTES`.

Kafka and kwire share the file format, so this code writes the same bytes for both.
"""

import os
import sys
from pathlib import Path

from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemClock, SystemRandomSource

RECORDS = 16


def main(directory: Path, topic: str, size: int) -> None:
    surroundings = Surroundings(disk=RealDisk(), clock=SystemClock(), random_source=SystemRandomSource())
    now_ms = SystemClock().wall_ms()
    batch = bytes(encode_batch([Record(value=os.urandom(1000), timestamp=now_ms) for _ in range(RECORDS)]))
    for path in sorted(directory.glob(f"{topic}-*")):
        log = open_log(
            str(path),
            topic=topic,
            partition=int(path.name.rpartition("-")[2]),
            config=LogConfig(),
            surroundings=surroundings,
            was_clean_shutdown=True,
        )
        while log.size_in_bytes < size:
            log.append(batch, leader_epoch=max(0, log.leader_epochs.latest_epoch))
        log.close(clean=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) * 1_000_000)
