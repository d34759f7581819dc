"""Rows about the log alone: kwire's code in a separate process, beside plain system calls."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from compat_tests.harness.paths import ROOT

LOOKUP_GIGABYTES = 5
Figures = Mapping[str, Mapping[str, list[float]]]
"""Figure -> broker -> samples."""


def in_process(script: str, *arguments: str) -> Any:
    """Return the JSON output of a script of benchmarks/in_process; -P keeps the checkout's own sources out."""
    command = [sys.executable, "-P", str(ROOT / "benchmarks" / "in_process" / script), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout else None


def appends() -> Figures:
    """Measure bytes per second of PartitionLog.append, as a share of plain writes."""
    return {
        f"append of {size}, part of plain writes": {"kwire": [rates["append"] / rates["write"]]}
        for size, rates in in_process("appends.py").items()
    }


def reads() -> Figures:
    """Measure bytes per second of cached reads that are sent, as a share of pread and send."""
    rates = in_process("reads.py")
    return {"cached read of 1 MB, part of pread and send": {"kwire": [rates["read"] / rates["pread"]]}}


def metadata_changes() -> Figures:
    """Measure one metadata change on a broker with 1,000 and with 50,000 partitions, and the ratio."""
    few, many = in_process("metadata.py", "1000", "50000").values()
    return {
        **{f"{kind} among 50,000 partitions, us": {"kwire": [many[kind]]} for kind in many},
        **{f"{kind}: 50,000 to 1,000 partitions": {"kwire": [many[kind] / few[kind]]} for kind in many},
    }


def lookups() -> Figures:
    """Measure the microseconds to find an offset or a timestamp."""
    taken = in_process("lookups.py", str(LOOKUP_GIGABYTES))
    return {
        f"look-up by {what} in {LOOKUP_GIGABYTES} GB {percentile}, us": {"kwire": [value]}
        for what, percentiles in taken.items()
        for percentile, value in percentiles.items()
    }
