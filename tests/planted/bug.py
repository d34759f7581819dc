"""Planted bug: a change to production code that a test run makes by itself, and the tests that must detect it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]

INVARIANTS: Final = {
    "S1": "acknowledged records exist at their offsets",
    "S2": "each offset has one value for all readers",
    "S3": "offsets strictly increase, and none is assigned twice",
    "S4": "after a crash the log is a prefix that contains all flushed records",
    "S5": "a log that is opened twice equals one that is opened once",
    "S6": "a batch that fails its CRC is never served",
    "S7": "damaged durable data is never truncated",
    "S8": "indexes and snapshots equal those derived from a scan of the batches",
    "S9": "epochs and their start offsets increase, and equal those of the batches",
    "S10": "data below the recovery point is flushed; log start <= last stable offset <= high watermark <= log end",
    "S11": "after a failed write or fsync no append is acknowledged",
    "S12": "the clean shutdown marker exists only while all data is durable",
    "S13": "compaction keeps the last value of each key, tombstones and markers for their time, and survives a crash",
    "S14": "retention removes whole segments, oldest first, below the high watermark",
    "S15": "files are equal to those that Kafka writes",
    "S16": "a full disk rejects appends and damages no data",
    "D1": "a formatted directory keeps its id",
    "T1": "a duplicate of one of a producer's last five batches gets the offset of the original",
    "T2": "sequence numbers have no gap, wrap after 2^31 - 1, and an older epoch is fenced",
    "T3": "read_committed consumers never receive aborted records",
    "T4": "a transaction is complete in all partitions and with its offsets, or absent",
    "T5": "each transaction has its own epoch, and late batches of older ones are rejected",
    "T6": "a transaction writes only to partitions that were added at its coordinator",
    "T7": "no transaction stays open for longer than its timeout, even across restarts",
    "T8": "a decision is durable before its first marker, and is never lost or reversed",
    "T9": "a new instance of a transactional id fences the old one",
    "T10": "a marker of an older coordinator is rejected",
    "T13": "a transaction is open until its marker, and fetch responses list the aborted ones",
    "R2": "each replica that is eligible for a clean election has all committed records",
    "R3": "committed records are on all replicas that are, or may already be, in the in-sync set",
    "R4": "the high watermark advances only while enough replicas are in sync and have fetched in this epoch",
    "R7": "readers receive all committed records, and no others",
    "R8": "a follower reconciles its log with its leader's by a comparison of epochs",
    "R9": "a replica joins the in-sync set once it has all committed records and all records of earlier epochs",
    "R10": "each change of an in-sync set applies to the state that its proposer had",
    "R11": "a fenced broker is in no in-sync set with other replicas and leads no partition",
    "R12": "a replica that may have lost records is no eligible leader until it has caught up",
    "R13": "eligible leaders are kept only while too few replicas are in sync",
    "R14": "records acknowledged with acks=all are on enough replicas",
    "R16": "an epoch has one leader, and a deposed leader acknowledges no records",
    "R17": "records rejected for too few replicas are not appended",
    "R15": "records that were read or acknowledged stay in all later responses",
    "R18": "a topic that is created again contains no data of the earlier one, and is usable",
    "R19": "each replica, leader or follower, describes its producers",
    "R20": "a preferred read replica is in sync, is in the consumer's rack, and has the requested records",
    "C1": "the controller plans only changes that the registered brokers support",
    "A1": "a record of a share group is acquired by one member, and only that one acknowledges it",
    "A2": "the delivery count of a record increases with each delivery, up to the limit, also after a stored release",
    "A3": "a record is not delivered after its stored acknowledgement",
    "A4": "the start offset of a share partition never decreases, and passes only records that are complete",
    "M1": "memory is bounded: state of transactions, producers and partitions is released",
    "G1": "a partition has one owner in a group",
    "G2": "the epoch of a member never decreases",
    "G3": "only members of the current generation commit offsets",
    "G4": "the next coordinator has all committed offsets",
    "G6": "members get responses, a group is stable after its last change, and no request breaks its invariants",
    "G7": "a static member that restarts replaces its old process, which is fenced",
    "G8": "an active task of a streams group has one owner",
    "Q1": "an epoch has at most one leader",
    "Q2": "epochs and votes are durable before they are sent, and never revert",
    "Q3": "committed records are equal on all nodes and never change",
    "Q4": "records are committed once a majority has them on disk, with a record of the leader's own epoch among them",
    "Q5": "a leader that serves has all records that were ever acknowledged",
    "Q6": "committed records are never truncated",
    "Q7": "a vote goes to a candidate whose log is as new; a single node that loses the leader does not depose it",
    "Q8": "voters change one at a time, a removed leader resigns, and an empty disk is another voter",
    "Q9": "a leader resigns if no majority fetches from it",
    "Q10": "a log begins at its snapshot, whose name is the position of its last record",
    "Q11": "equal logs give equal images",
    "Q13": "a healed quorum has a leader, and all nodes have the same records",
    "P1": "a parser rejects an input with its own error, within steps and memory for its size, and loses no value",
    "G5": "offsets of an open transaction are hidden, and requests for stable offsets get a retriable error",
}


@dataclass(slots=True, kw_only=True, frozen=True)
class PlantedBug:
    """A single planted bug."""

    name: str
    breaks: str
    """Key of the violated invariant in INVARIANTS."""
    does: str
    """Description of the wrong behaviour in one line."""
    found_by: tuple[str, ...]
    """Tests of which each fails with the bug."""
    plant: Plant
    workload: str = ""
    """Name of the crash workload, for a bug that shows only after a power cut."""


class Catalogue:
    """Bugs by name, in the order of their definition."""

    def __init__(self) -> None:
        self.bugs: dict[str, PlantedBug] = {}

    def bug(self, breaks: str, *found_by: str) -> Callable[[Plant], Plant]:
        """Register a function that plants a bug; its name and docstring are the bug's. Tests are named relative to
        tests/.
        """

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
    """Do nothing, in place of the replaced function."""


def always(*arguments: Any, **named: Any) -> bool:
    return True


def never(*arguments: Any, **named: Any) -> bool:
    return False
