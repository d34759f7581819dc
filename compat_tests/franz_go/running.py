"""Run of franz-go's tests against a broker, with the result of each of them."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.franz_go.building import SOURCES, programs

RECORDS = 200_000
"""Records that each test of groups, transactions and share groups moves through its topics; franz-go uses 500,000."""
SECONDS_MAX = 800
SHOWN = 6000
"""Characters that are shown of the output of a failed test."""

GROUPS = ("range", "cooperative-sticky", "range/848", "sticky/848", "cooperative-sticky/static", "sticky/848/static")
"""Kinds of consumer groups: 848 is the protocol of KIP-848, the others are classic."""
SUBTESTS = [
    *(f"{name}/{kind}" for name in ("TestGroupETL", "TestTxnEtl") for kind in GROUPS),
    "TestGroupSimple/classic",
    "TestGroupSimple/848",
]
"""Subtests that are reported one by one; the others count with the test that they belong to."""


@dataclass(slots=True)
class Result:
    """Result of one Go test: pass, fail, skip, or empty if it did not end."""

    action: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def output(self) -> str:
        return "".join(self.lines)[-SHOWN:]


def listed_tests() -> list[str]:
    """Return the names of all tests of the program, and those of SUBTESTS."""
    command = [str(programs() / "kgo.test"), "-test.list", "^Test"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() + SUBTESTS


def run(bootstrap: str, scratch: Path, *, replicas: int = 1) -> Mapping[str, Result]:
    """Run all tests against a broker; return the results by name, and that of the whole program under an empty name."""
    tests = programs() / "kgo.test"
    settings = {
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_TEST_UNSAFE": "1",
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(programs() / "test2json"), "-t", str(tests), "-test.v=test2json", f"-test.timeout={SECONDS_MAX}s"]
    with (scratch / "events.jsonl").open("w+") as events:
        subprocess.run(
            command, cwd=SOURCES, env=os.environ | settings, stdout=events, stderr=subprocess.STDOUT, check=False
        )
        events.seek(0)
        return read_results(events)


def read_results(events) -> Mapping[str, Result]:
    """Return the results by name from the events of test2json; lines that are no events belong to the whole program."""
    results: dict[str, Result] = {"": Result()}
    for line in events:
        if not line.startswith("{"):
            results[""].lines.append(line)
            continue
        event = json.loads(line)
        result = results.setdefault(event.get("Test", ""), Result())
        if event["Action"] == "output":
            result.lines.append(event["Output"])
        elif event["Action"] in ("pass", "fail", "skip"):
            result.action = event["Action"]
    return results
