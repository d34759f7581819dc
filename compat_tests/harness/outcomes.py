"""Test outcomes of one suite on one broker, and the check which outcomes count against kwire."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from compat_tests.harness.paths import ROOT

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
EXCUSED = "skipped as it declares"

DECLARED = "declared: "
"""Prefix of the skip reason of a test that declares itself why it cannot run."""

DIFFERENCES = ROOT / "docs" / "differences.md"


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Outcomes of one suite on one broker. A suite that could not run at all has a problem and no tests."""

    tests: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    def count(self, outcome: str) -> int:
        return sum(each == outcome for each in self.tests.values())


def read_report(path: Path) -> dict[str, str]:
    """Return outcomes by test name from pytest's JUnit report; a test whose fixture fails counts as failed."""
    tests: dict[str, str] = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        module = case.get("classname", "").removeprefix("compat_tests.")
        name = f"{module}::{case.get('name')}"
        kinds = {child.tag for child in case}
        outcome = FAILED if kinds & {"failure", "error"} else skip_of(case) if "skipped" in kinds else PASSED
        if tests.get(name) != FAILED:
            tests[name] = outcome
    return tests


def skip_of(case: ET.Element) -> str:
    reasons = [skip.get("message", "") for skip in case.iter("skipped")]
    return EXCUSED if all(reason.startswith(DECLARED) for reason in reasons) else SKIPPED


def skip_as_declared(why: str) -> NoReturn:
    """Skip the running test for a reason that the comparison accepts: it shows the test as skipped, not as failed."""
    pytest.skip(DECLARED + why)


def listed_differences() -> list[str]:
    """Return the tests in backquotes in docs/differences.md, as folder.module::test or folder.module::test[case]."""
    if not DIFFERENCES.exists():
        return []
    return re.findall(r"`([\w.]+::[^`]+)`", DIFFERENCES.read_text())


def complaints(kwire: Outcomes, kafka: Outcomes | None) -> list[str]:
    """Return every reason why a row is not proven; the list is empty if there is none."""
    found = [
        f"{broker}: {outcomes.problem}"
        for broker, outcomes in (("kwire", kwire), ("kafka", kafka))
        if outcomes and outcomes.problem
    ]
    if kafka is None:
        return found + [
            f"{name}: {outcome} on kwire" for name, outcome in kwire.tests.items() if outcome in (FAILED, SKIPPED)
        ]
    listed = listed_differences()
    for name in sorted(kwire.tests.keys() | kafka.tests.keys()):
        ours, theirs = kwire.tests.get(name), kafka.tests.get(name)
        difference = name in listed or name.split("[")[0] in listed
        if ours == FAILED and theirs == FAILED:
            found.append(f"{name}: failed on both, so the test is wrong")
        elif ours == SKIPPED and theirs == SKIPPED:
            found.append(f"{name}: skipped on both without declaring why, so nothing is compared")
        elif ours != theirs and not difference:
            found.append(f"{name}: {ours or 'not run'} on kwire, {theirs or 'not run'} on Kafka")
    return found


def cell(outcomes: Outcomes | None) -> str:
    """Return the table cell for a broker."""
    if outcomes is None:
        return "-"
    if outcomes.problem:
        return "did not run"
    skipped = outcomes.count(SKIPPED) + outcomes.count(EXCUSED)
    return f"{outcomes.count(PASSED)}" + (f" ({skipped} skipped)" if skipped else "")


def same(kwire: Outcomes, kafka: Outcomes | None) -> str:
    """Return how many tests ran on both brokers with the same outcome."""
    if kafka is None:
        return "-"
    if kafka.problem:
        return cell(kafka)
    compared = {name: outcome for name, outcome in kwire.tests.items() if outcome not in (SKIPPED, EXCUSED)}
    return str(sum(kafka.tests.get(name) == outcome for name, outcome in compared.items()))
