"""What a planted bug is: a change to production code that a test run makes for itself, and what must notice it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]

INVARIANTS: Final = {
    "S1": "what was acknowledged is there, at its offset",
    "S2": "one offset has one value, for every reader",
    "S3": "offsets strictly increase, none is given twice",
    "S4": "after a crash the log is a prefix that holds all that was flushed",
    "S5": "opening twice is opening once",
    "S6": "a batch that fails its CRC is never served",
    "S7": "damage of what was durable is never cut away",
    "S8": "indexes and snapshots say what a scan of the batches says",
    "S9": "epochs and their start offsets increase, and are those of the batches",
    "S10": "what counts as flushed is flushed; log start <= last stable offset <= high watermark <= log end",
    "S11": "after a failed write or fsync nothing more is acknowledged",
    "S12": "the mark of a clean shutdown is there only while everything is durable",
    "S13": "compaction keeps the last value of each key, tombstones and markers for their time, and survives a crash",
    "S14": "retention takes whole segments, oldest first, below the high watermark",
    "S15": "the files are those that Kafka writes",
    "S16": "a full disk refuses appends and harms nothing",
    "D1": "a directory that was formatted keeps its identity",
    "T1": "each of a producer's last five batches is answered with its own offset when it is repeated",
    "T2": "sequence numbers have no gap, wrap after 2^31 - 1, and an older epoch is fenced",
    "T3": "readers of committed records never see what was aborted",
    "T4": "a transaction is there as a whole, in all partitions and with its offsets, or not at all",
    "T5": "each transaction has an epoch of its own, and what comes late from an older one is refused",
    "T6": "nothing is written into a partition that the transaction's coordinator does not know of",
    "T7": "no transaction stays open for longer than its timeout, over restarts too",
    "T8": "a decision is durable before its first marker, and is never lost or turned",
    "T9": "a new instance of a transactional id fences the old one",
    "T10": "a marker of an older coordinator is refused",
    "T13": "a transaction is open until its marker, and readers are told which ones were aborted",
    "R2": "whoever may be elected without loss has all that is committed",
    "R3": "what is committed is on all replicas that are in sync, or may be so by now",
    "R4": "the high watermark moves only while enough replicas are in sync, and have fetched in this epoch",
    "R7": "readers see what is committed, and nothing else",
    "R8": "a follower's log is brought to its leader's by comparing epochs",
    "R9": "a replica joins the in-sync set when it has all that is committed, and all from before the epoch",
    "R10": "in-sync sets change one after the other, each from the state that its proposer saw",
    "R11": "a fenced broker is in sync with nobody and leads nothing",
    "R12": "who may have lost records is no eligible leader until it has caught up",
    "R13": "eligible leaders are kept only while too few replicas are in sync",
    "R14": "what is acknowledged with acks=all is on enough replicas",
    "R16": "an epoch has one leader, and one that was deposed acknowledges nothing",
    "R17": "what is refused for want of replicas is not appended",
    "R15": "what was read or acknowledged stays: no later answer tells of less",
    "R18": "a topic that is made again has nothing of an earlier one of its name, and can be used",
    "R19": "each replica tells what it knows of its producers, the leader and followers",
    "R20": "a consumer is sent to replicas that are in sync, live in its rack and have what it asks for",
    "C1": "the controller plans what the registered brokers can do, and nothing else",
    "M1": "memory is bounded: what is kept for transactions, producers and partitions is given back",
    "G3": "offsets are committed by members of the present generation only",
    "G4": "offsets that were committed are known to the next coordinator",
    "G6": "every member is answered, a group comes to rest after its last change, and no request breaks its invariants",
    "G7": "a static member that restarts takes its own place, and the process of before is fenced",
    "Q1": "an epoch has one leader at most",
    "Q2": "epochs and votes are durable before anybody hears of them, and never change back",
    "Q3": "what is committed is the same everywhere and for ever",
    "Q4": "committed is what a majority has on disk, once a record of the leader's own epoch is among it",
    "Q5": "a leader that serves has everything that was ever acknowledged",
    "Q6": "nothing that is committed is cut away",
    "Q7": "a vote goes to a log that is as new; who alone loses the leader does not depose it",
    "Q8": "voters change one at a time, a removed leader goes, and an empty disk is another voter",
    "Q9": "a leader that no majority asks resigns",
    "Q10": "a log begins with its snapshot, which is named after its last record",
    "Q11": "the same log makes the same image",
    "Q13": "a healed quorum has a leader, and all know the same",
    "G5": "offsets of an open transaction are hidden, and who wants stable ones is told to wait",
}


@dataclass(slots=True, kw_only=True, frozen=True)
class PlantedBug:
    """One way of being wrong."""

    name: str
    breaks: str
    """The invariant, a key of INVARIANTS."""
    does: str
    """One line: what the code does instead."""
    found_by: tuple[str, ...]
    """The tests that fail with it, each by itself."""
    plant: Plant
    workload: str = ""
    """For a bug that states after a power cut show: what the broker was doing."""


class Catalogue:
    """Bugs by name, in the order in which they were written down."""

    def __init__(self) -> None:
        self.bugs: dict[str, PlantedBug] = {}

    def bug(self, breaks: str, *found_by: str) -> Callable[[Plant], Plant]:
        """Note a function that plants a bug; its name and its docstring are the bug's, tests are named below tests/."""

        def note(plant: Plant) -> Plant:
            name = plant.__name__.replace("_", " ")
            assert breaks in INVARIANTS
            assert name not in self.bugs
            does = (plant.__doc__ or "").strip()
            tests = tuple(f"tests/{test}" for test in found_by)
            self.bugs[name] = PlantedBug(name=name, breaks=breaks, does=does, found_by=tests, plant=plant)
            return plant

        return note


def nothing(*arguments: Any, **named: Any) -> None:
    """Stands where something was done."""


def always(*arguments: Any, **named: Any) -> bool:
    return True


def never(*arguments: Any, **named: Any) -> bool:
    return False
