"""Committed offsets: commits a second from 20 connections, and the time to load a million offsets."""

from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.frames import fetch_error_position, offset_commit_frame
from benchmarks.load import load
from benchmarks.rows.engine import Figures, in_process
from benchmarks.rows.groups import wait_for_coordinator
from benchmarks.topics import PARTITIONS, delete_topic, make_topic

TOPIC = "committed"
GROUPS = 20
WARM_UP_SECONDS = 2.0
MEASURED_SECONDS = 3.0


def offset_commits(run: Run) -> Mapping[str, float]:
    """Measure offset commits: each connection sends one after the other, for groups without members."""
    make_topic(run, TOPIC)
    for number in range(GROUPS):
        wait_for_coordinator(run, f"committer-{number}")
    frames = [offset_commit_frame(f"committer-{number}", TOPIC, number % PARTITIONS) for number in range(GROUPS)]
    position = fetch_error_position(TOPIC)  # the responses begin like those of Fetch
    load(run, frames, position, seconds=WARM_UP_SECONDS)
    measured = load(run, frames, position, seconds=MEASURED_SECONDS)
    delete_topic(run, TOPIC)
    return {"offset commits/s": measured.rate}


def million_offsets() -> Figures:
    """Measure a start with a million committed offsets, and the longest delay of the event loop during it."""
    figures = in_process("offsets.py")
    return {
        "load of a million committed offsets, s": {"kwire": [figures["seconds"]]},
        "loop held while a million offsets are loaded, ms": {"kwire": [figures["held_ms"]]},
    }
