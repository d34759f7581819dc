"""Results in .cache: Kafka's without expiry, kwire's by a digest of the sources on which they depend."""

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from compat_tests.harness.paths import ROOT
from compat_tests.kafka_tests.jars import HOME, SOURCES
from compat_tests.kafka_tests.running import run

CONTROL = HOME / "control"
RESULTS = HOME / "kwire"
UNKNOWN_SECONDS = 60.0
"""Expected duration of a class that has never run."""


@cache
def digest() -> str:
    """Return a digest of kwire and of the Java classes: a result is valid as long as the digest is the same."""
    files = [*(ROOT / "kwire").rglob("*.py"), *SOURCES.rglob("*.java"), Path(__file__).with_name("formatting.py")]
    found = hashlib.sha256()
    for each in sorted(files):
        found.update(f"{each.relative_to(ROOT)}\0".encode() + each.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def on_kwire(selector: str, shard: int = 0, left_out: Iterable[str] = ()) -> list[dict]:
    invocations = run(selector, "kwire", shard, left_out)
    _write(RESULTS / digest() / f"{selector}.json", invocations)
    return invocations


def on_kafka(selector: str, shard: int = 0) -> list[dict]:
    """Return the result on Kafka's own cluster; it is run once, because kwire's sources do not affect it."""
    kept = _read(CONTROL / f"{selector}.json")
    if kept is None:
        kept = run(selector, "kafka", shard)
        _write(CONTROL / f"{selector}.json", kept)
    return kept


def known(selector: str) -> list[dict] | None:
    """Return kwire's result with the current sources, or None."""
    return _read(RESULTS / digest() / f"{selector}.json")


def known_on_kafka(selector: str) -> list[dict] | None:
    return _read(CONTROL / f"{selector}.json")


def expected_seconds(selector: str) -> float:
    """Return the expected duration of a class on kwire, from earlier runs with any sources, or else on Kafka."""
    earlier = max(RESULTS.glob(f"*/{selector}.json"), key=lambda path: path.stat().st_mtime, default=None)
    return _seconds(_read(earlier) if earlier else known_on_kafka(selector))


def _seconds(invocations: list[dict] | None) -> float:
    return UNKNOWN_SECONDS if invocations is None else sum(each["seconds"] for each in invocations)


def _read(path: Path) -> list[dict] | None:
    return json.loads(path.read_text()) if path.exists() else None


def _write(path: Path, invocations: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.{id(invocations)}")
    scratch.write_text(json.dumps(invocations))
    scratch.replace(path)
