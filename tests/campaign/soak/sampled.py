"""Module that each node of a soak test loads as sitecustomize: it writes samples of the node, and can plant a leak.

Memory is measured after the C library has released its free memory, because a former peak is not growth. SOAK_SAMPLES
is the directory of the samples. SOAK_LEAK=connections keeps a reference to every connection.
"""

import ctypes
import gc
import json
import os
import threading
from collections import Counter
from pathlib import Path

SECONDS = 20.0
TYPES_MAX = 40


def write_counts(path: Path) -> None:
    objects = gc.get_objects()
    counts = Counter(type(each).__name__ for each in objects)
    held = len(objects) + gc.get_freeze_count()
    del objects
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    sample = {
        "objects": held,
        "resident_bytes": pages * os.sysconf("SC_PAGESIZE"),
        "types": dict(counts.most_common(TYPES_MAX)),
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(sample))
    temporary.replace(path)


def sample_forever(directory: str) -> None:
    stop = threading.Event()
    while not stop.wait(SECONDS):
        write_counts(Path(directory) / f"{os.getpid()}.json")


def keep_connections() -> None:
    from kwire.server.network import stream_protocol

    kept = []
    made = stream_protocol.StreamProtocol.connection_made

    def connection_made(self, transport):
        kept.append((self, bytearray(64 * 1024)))
        made(self, transport)

    stream_protocol.StreamProtocol.connection_made = connection_made  # type: ignore[method-assign]


if os.environ.get("SOAK_SAMPLES"):
    threading.Thread(target=sample_forever, args=(os.environ["SOAK_SAMPLES"],), daemon=True).start()
    if os.environ.get("SOAK_LEAK") == "connections":
        keep_connections()
