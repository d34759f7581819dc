"""Runs of test classes on kwire, with Kafka's own cluster as control, and the resulting complaints about kwire."""

import collections
import itertools
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rich.table import Table

from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.kafka_tests import allowed, keeping
from compat_tests.kafka_tests.judging import CAPABILITY, FAILED, INSIDES, PASSED, SKIPPED, Verdict, judge
from compat_tests.kafka_tests.running import simple

_MOMENT = re.compile(r"(?<=Timestamp=)\d{13}\b")

STATES = (PASSED, FAILED, INSIDES, CAPABILITY, SKIPPED)


@dataclass(frozen=True, slots=True)
class Result:
    """Results of a class or method on both sides: verdicts and details by invocation id."""

    selector: str
    kwire: dict[str, Verdict]
    kafka: dict[str, Verdict]
    details: dict[str, dict]
    seconds: float

    def count(self, state: str) -> int:
        return sum(each.state == state for each in self.kwire.values())


def prove(
    selectors: Sequence[str],
    *,
    jobs: int,
    say: Callable[[str], None],
    minutes: float = math.inf,
    resume: bool = False,
    recheck: bool = True,
) -> tuple[list[Result], list[str]]:
    """Run all selectors in `jobs` JVMs at a time: on kwire, and on Kafka unless Kafka's result exists already.

    With `resume`, a class that has run with the current sources does not run again. Kafka then runs only classes with
    failures that the allow-list does not name. Without `recheck`, methods that the allow-list lists for a missing
    capability are left out. A class that would not end within `minutes` is not started, except the first one. Returns
    the results, and the classes that did not run.
    """
    shards: queue.SimpleQueue[int] = queue.SimpleQueue()
    for shard in range(jobs):
        shards.put(shard)
    lock = threading.Lock()
    begun = time.monotonic()
    left_out = [] if recheck else allowed.needing_capabilities(allowed.read())
    fits = itertools.chain([True] * jobs, itertools.repeat(False))

    def one(selector: str) -> Result | None:
        kept = keeping.known(selector) if resume else None
        theirs = keeping.known_on_kafka(selector)
        if kept is not None and (theirs is not None or is_as_allowed(kept)):
            return result_of(selector, kept, theirs or [])
        shard = shards.get()
        try:
            elapsed = time.monotonic() - begun
            if not next(fits) and elapsed + keeping.expected_seconds(selector) > minutes * 60:
                return None
            ours = keeping.on_kwire(selector, shard, left_out) if kept is None else kept
            if theirs is None and not (resume and is_as_allowed(ours)):
                theirs = keeping.on_kafka(selector, shard)
            result = result_of(selector, ours, theirs or [])
        finally:
            shards.put(shard)
        with lock:
            counts = ", ".join(f"{result.count(state)} {state}" for state in STATES if result.count(state))
            say(f"{simple(selector)}: {counts or 'no test'}; {result.seconds:.0f} s")
        return result

    with ThreadPoolExecutor(jobs) as pool:
        results = dict(zip(selectors, pool.map(one, selectors), strict=True))
    return [each for each in results.values() if each], [name for name, each in results.items() if not each]


def is_as_allowed(invocations: Sequence[dict]) -> bool:
    """Return True if every failure is in the allow-list, so that no comparison with Kafka is needed."""
    entries = allowed.read()
    verdicts = ((each["id"], judge(each)) for each in invocations)
    return bool(invocations) and all(
        verdict.state in (PASSED, SKIPPED) or verdict.is_left_out or allowed.covering(name, entries)
        for name, verdict in verdicts
    )


def result_of(selector: str, invocations: Sequence[dict], theirs: Sequence[dict]) -> Result:
    return Result(
        selector,
        {lasting(each["id"]): judge(each) for each in invocations},
        {lasting(each["id"]): Verdict(each["status"]) for each in theirs},
        {lasting(each["id"]): each for each in invocations},
        sum(each["seconds"] for each in invocations),
    )


def lasting(invocation_id: str) -> str:
    """Return the id without the part that changes in each run: a time that a test has as its parameter."""
    return _MOMENT.sub("MOMENT", invocation_id)


def complaints(results: Sequence[Result]) -> list[str]:
    """Return every reason why the row fails: failures outside the allow-list, stale entries, tests that differ."""
    entries = allowed.read()
    found = []
    for result in results:
        if not result.kwire and result.kafka:
            found.append(f"{result.selector}: no test ran")
        for name, verdict in result.kwire.items():
            theirs = result.kafka.get(name)
            entry = allowed.covering(name, entries)
            if verdict.is_left_out:
                continue
            if verdict.state == PASSED and entry:
                found.append(f"{name}: passes now, remove {entry} from the allow-list")
            elif verdict.state not in (PASSED, SKIPPED) and not entry and (theirs is None or theirs.state == PASSED):
                control = theirs.state if theirs else "not run"
                found.append(f"{name}: {verdict.state} ({verdict.what}); on Kafka {control}")
            elif verdict.state == FAILED and entry and entries[entry][0] != FAILED:
                found.append(f"{name}: failed ({verdict.what}), but the allow-list says: {entries[entry][0]}")
        found += [
            f"{name}: not run on kwire"
            for name in result.kafka.keys() - result.kwire.keys()
            if not _is_left_out(name, entries)
        ]
    return found


def _is_left_out(name: str, entries: dict[str, tuple[str, str]]) -> bool:
    entry = allowed.covering(name, entries)
    return entry is not None and entries[entry][0] == CAPABILITY


def table(results: Sequence[Result]) -> Table:
    shown = Table(title=f"The integration tests of Apache Kafka {KAFKA_VERSION} on kwire, and on Kafka's own cluster")
    shown.add_column("class")
    for heading in (
        "tests",
        "passed",
        "failed",
        "JVM's insides",
        "capability",
        "skipped",
        "passed on Kafka",
        "seconds",
    ):
        shown.add_column(heading, justify="right")
    for result in results:
        shown.add_row(simple(result.selector), *cells(result))
    return shown


def cells(result: Result) -> list[str]:
    kafka = str(sum(each.state == PASSED for each in result.kafka.values())) if result.kafka else ""
    counts = [str(result.count(state)) for state in STATES]
    return [str(len(result.kwire)), *counts, kafka, f"{result.seconds:.0f}"]


def needs(results: Sequence[Result]) -> dict[str, collections.Counter]:
    """Count the invocations by what they need, for each state."""
    counters = {state: collections.Counter() for state in (INSIDES, CAPABILITY)}
    for result in results:
        for verdict in result.kwire.values():
            if verdict.state in counters:
                counters[verdict.state][verdict.what] += 1
    return counters
