"""Digests of Apache Kafka 4.3.1's images after random metadata logs, stored by compat_tests/images/store.py."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.cluster.replayed_logs import normalised

PATH = Path(__file__).with_suffix(".txt")
"""File with a line for each log: its seed and the digest of Kafka's snapshot."""


def stored() -> dict[int, str]:
    """Return the stored digests by seed."""
    pairs = (line.split() for line in PATH.read_text().splitlines())
    return {int(seed): text for seed, text in pairs}


def digest(records: Iterable[Any]) -> str:
    """Return a digest of a snapshot's records that does not depend on their order."""
    return hashlib.sha256("\n".join(normalised(records)).encode()).hexdigest()[:16]
