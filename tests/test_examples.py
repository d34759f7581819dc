"""Each example program runs as its documentation page describes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kwire
from kwire.own_processes import environment

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 120


@pytest.fixture(scope="module")
def bootstrap_server() -> Iterator[str]:
    with kwire.Broker(isolation="process") as broker:
        yield broker.bootstrap_server


def run(name: str, *arguments: str) -> str:
    """Return the output of an example."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment(),
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_records_are_produced_moved_and_consumed(bootstrap_server: str) -> None:
    assert run("produce.py", bootstrap_server, "orders", "20").endswith("20 records in orders\n")
    assert run("transactions.py", bootstrap_server, "orders", "shouted") == "20 records moved\n"
    assert run("transactions.py", bootstrap_server, "orders", "shouted") == "0 records moved\n"
    found = run("consume.py", bootstrap_server, "shouted")
    assert "ORDER" in found
    assert found.endswith("20 records in shouted\n")


def test_a_topic_is_created_and_described(bootstrap_server: str) -> None:
    assert run("admin.py", bootstrap_server, "payments") == "payments has 3 partitions\n"


@pytest.mark.parametrize("name", ["test_orders.py", "test_a_cut_network.py"])
def test_the_tests_of_an_example_pass(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / name)]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment(), cwd=EXAMPLES.parent
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\d+ passed", ran.stdout)


def test_a_cluster_takes_a_record_and_stops(tmp_path: Path) -> None:
    printed = run("cluster.py", str(tmp_path / "cluster"), "0")
    assert printed == "partition 0 offset 0, on 3 brokers\nexit status 0\n"


def test_the_page_lists_every_example() -> None:
    listed = set(re.findall(r"^\| `(\w+\.py)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}
