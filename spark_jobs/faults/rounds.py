"""Rounds of the campaign: the seed of a round determines its stream of events, its tables and its faults."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Brokers(StrEnum):
    """Brokers of a round."""

    ONE = "one broker behind a proxy"
    THREE = "three brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Kind of fault. One that needs neither brokers nor executors of a kind occurs with all of them."""

    name: str
    brokers: Brokers | None = None
    ends_run: bool = False
    """True if it kills the driver: the round starts a new one."""
    deletes: bool = False
    """True if it deletes records of the input: queries run with failOnDataLoss=false."""
    executors: bool = False
    """True if it needs executors in processes of their own."""
    uses_proxy: bool = False
    query: str | None = None
    """Query that must run in the round."""


FAULTS = {
    each.name: each
    for each in (
        Fault(name="driver killed", ends_run=True),
        Fault(name="driver killed after the table", ends_run=True),
        Fault(name="driver killed after the sink", ends_run=True),
        Fault(name="driver killed between table and sink", ends_run=True, query="counts"),
        Fault(name="python worker killed"),
        Fault(name="python worker killed at its commit", brokers=Brokers.ONE, uses_proxy=True),
        Fault(name="executor killed", executors=True),
        Fault(name="broker killed", brokers=Brokers.ONE),
        Fault(name="broker of three killed", brokers=Brokers.THREE),
        Fault(name="leaders moved", brokers=Brokers.THREE),
        Fault(name="responses dropped", brokers=Brokers.ONE, uses_proxy=True),
        Fault(name="transactions aborted"),
        Fault(name="input compacted", deletes=True),
        Fault(name="records deleted", deletes=True),
        Fault(name="retention", deletes=True),
        Fault(name="input made anew", deletes=True),
    )
}
SECOND_FAULT_SHARE = 0.6
FORMATS = ("parquet", "delta", "iceberg")
MORE_QUERIES = ("cleaned", "counts", "dead_letters")
"""Queries of which a round runs one, besides the raw one and the copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Plan of a round."""

    seed: int
    faults: tuple[Fault, ...]
    brokers: Brokers
    table_format: str
    queries: tuple[str, ...]
    """Queries of the pipeline; the copies run in all rounds."""

    @property
    def deletes(self) -> bool:
        return any(each.deletes for each in self.faults)

    @property
    def has_executors(self) -> bool:
        return any(each.executors for each in self.faults)

    def has(self, name: str) -> bool:
        return FAULTS[name] in self.faults

    def source(self, purpose: str) -> random.Random:
        """Return the random numbers for one purpose, which do not depend on other purposes."""
        return random.Random(f"{purpose} of round {self.seed}")


def planned(seed: int, names: Sequence[str] = (), *, broker: str = "kwire") -> Round:
    """Return the round of a seed; `names` replace its faults."""
    random_source = random.Random(f"round {seed}")
    usable = [each for each in FAULTS.values() if broker == "kwire" or each.brokers is not Brokers.THREE]
    faults = [random_source.choice(usable)]
    if random_source.random() < SECOND_FAULT_SHARE:
        faults += random_source.sample([each for each in usable if _fits(each, faults[0])], 1)
    if names:
        faults = [FAULTS[name] for name in names]
    needed = [each.query for each in faults if each.query]
    chosen: set[Any] = {*needed, random_source.choice(MORE_QUERIES)}
    if any(each.deletes for each in faults):
        chosen = chosen - {"counts"} | {"dead_letters"}  # a window is whole only if its records were all read
    return Round(
        seed=seed,
        faults=tuple(faults),
        brokers=next((each.brokers for each in faults if each.brokers), Brokers.ONE),
        table_format=random_source.choice(FORMATS),
        queries=("raw", *(name for name in MORE_QUERIES if name in chosen)),
    )


def _fits(fault: Fault, first: Fault) -> bool:
    """Return True if a round can have both faults."""
    return not (
        fault == first
        or (fault.brokers and first.brokers and fault.brokers != first.brokers)
        or (fault.ends_run and first.ends_run)
        or (fault.deletes and first.deletes)
        or (fault.uses_proxy and first.uses_proxy)
        # A killed broker leaves delivery reports without an offset, and the check of deletions needs it.
        or any("broker" in one.name and other.deletes for one, other in ((fault, first), (first, fault)))
        or any(one.query and other.deletes for one, other in ((fault, first), (first, fault)))
    )
