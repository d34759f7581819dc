"""kwire decides the partitions of internal topics of streams groups as Apache Kafka's own class does.

No broker runs: one Java process configures random topologies (Topologies.java). TOPOLOGIES=1000 tests 1000 of them,
from seed SEED=7 on.
"""

import os
import subprocess
from pathlib import Path

import pytest

from compat_tests.harness.reference import class_path
from tests.coordinator.assignors.drawn_topologies import configured, drawn_topology

PROGRAM = Path(__file__).with_name("Topologies.java")
COUNT = int(os.environ.get("TOPOLOGIES", "20000"))
SHORT_COUNT = 2000
FIRST_SEED = int(os.environ.get("SEED", "1"))
SHOWN = 5


def kafkas_topologies(drawn, directory):
    """Return Kafka's result for each topology."""
    path = directory / "topologies"
    with path.open("w") as lines:
        for topics, subtopologies in drawn:
            listed = ",".join(f"{name}:{count}" for name, count in topics.items())
            lines.write(f"{listed} {' '.join(f'{name}={text}' for name, text in subtopologies.items())}\n")
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path()]
    done = subprocess.run([*command, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def is_same(ours, kafkas):
    if kafkas.startswith("failed: StreamsInvalidTopologyException: "):
        return ours == f"failed: {kafkas.removeprefix('failed: StreamsInvalidTopologyException: ')}"
    if kafkas.startswith("failed: "):  # an error that Kafka's clients receive as UNKNOWN_SERVER_ERROR
        return ours.startswith("failed: ")
    return ours == kafkas


def compare(count, directory):
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    drawn = list(map(drawn_topology, seeds))
    answers = kafkas_topologies(drawn, directory)
    found = [
        f"seed {seed}: {it}\n  kwire {ours}\n  Kafka {kafkas}"
        for seed, it, ours, kafkas in zip(seeds, drawn, map(configured, drawn), answers, strict=True)
        if not is_same(ours, kafkas)
    ]
    shown = "\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {count} topologies differ\n{shown}"


@pytest.mark.short
def test_a_few_topologies_match_kafkas(tmp_path):
    compare(SHORT_COUNT, tmp_path)


def test_topologies_match_kafkas(tmp_path):
    compare(COUNT, tmp_path)
