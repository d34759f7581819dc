"""Results that are kept in .cache: Kafka's for good, kwire's under a digest of the sources that they depend on."""

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
"""What a class is thought to need that has never run."""


@cache
def digest() -> str:
    """Return a digest of kwire and of the Java classes: a result is valid as long as they are the same."""
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
    """The same on Kafka's own cluster; run once, since nothing of it changes with kwire."""
    kept = _read(CONTROL / f"{selector}.json")
    if kept is None:
        kept = run(selector, "kafka", shard)
        _write(CONTROL / f"{selector}.json", kept)
    return kept


def known(selector: str) -> list[dict] | None:
    """Return kwire's result with today's sources, or None."""
    return _read(RESULTS / digest() / f"{selector}.json")


def known_on_kafka(selector: str) -> list[dict] | None:
    return _read(CONTROL / f"{selector}.json")


def expected_seconds(selector: str) -> float:
    """Return how long a class will take on kwire, as far as it has run: with any sources, or else on Kafka."""
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
