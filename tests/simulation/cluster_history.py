"""History of the clients that write to one topic, which is never deleted; tests/history checks it.

Clients record the beginning of each operation and its outcome; an operation without an outcome may have taken effect.
An anomaly that the checker finds raises an AssertionError at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar
from uuid import UUID

from kwire.simulation import Simulation
from tests.history.checker import check
from tests.history.findings import KNOWN
from tests.history.operations import OK, Begin, End, Operation, Own, Send

TOPIC: Final = "h"
PARTITIONS: Final = 3
KEYS: Final = tuple(f"{TOPIC}-{index}" for index in range(PARTITIONS))
RULES: Final = {
    "lost write": "S1", "unseen": "S1", "duplicate": "T1", "inconsistent offsets": "S2", "spurious offset": "S1",
    "aborted read": "T3", "precommitted read": "T3", "torn transaction": "T4", "hanging transaction": "T7",
    "rewound commit": "G4", "double owner": "G1",
}  # fmt: skip
"""Invariants by the checker's anomaly names; all other anomalies concern the order of reads."""
ORDER: Final = "S3"
SECOND: Final = 1_000_000_000

AnyOperation = TypeVar("AnyOperation", bound=Operation)


class History:
    """History of all operations of the clients."""

    def __init__(self, simulation: Simulation, rules: Mapping[str, str] = RULES) -> None:
        self._simulation = simulation
        self._rules = rules
        self.operations: list[Operation] = []
        self.topic_id = UUID(int=0)
        """Id of the topic, once it is created."""
        self.excused = 0
        """Number of known anomalies of the classic protocol that were found."""

    @property
    def now(self) -> float:
        return self._simulation.now * SECOND

    def begin(self, operation: AnyOperation) -> AnyOperation:
        """Record the beginning of an operation."""
        operation.invoked = self.now
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: str = OK) -> None:
        """Record the outcome of an operation."""
        operation.outcome, operation.completed = outcome, self.now

    def note(self, operation: Operation) -> None:
        """Record an operation without duration."""
        self.begin(operation)
        self.end(operation)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of successful sends, ends of transactions, and partitions assigned to members."""
        done = [operation for operation in self.operations if operation.outcome == OK]
        return tuple(sum(isinstance(operation, kind) for operation in done) for kind in (Send, End, Own))  # type: ignore[return-value] # there are three

    @property
    def classic(self) -> int:
        """Return the number of transactions of the classic protocol that certainly ended."""
        classic = {each.transaction for each in self.operations if isinstance(each, Begin) and each.protocol == "v1"}
        ends = [each for each in self.operations if isinstance(each, End) and each.outcome == OK]
        return sum(end.transaction in classic for end in ends)

    def judge(self) -> None:
        """Check the history. Raises AssertionError."""
        report = check(self.operations)
        self.excused = len(report.of(KNOWN))
        bad = report.bad
        if bad:
            rule = self._rules.get(bad[0].name, ORDER)
            raise AssertionError(f"{rule}: {'; '.join(map(str, bad[:5]))}")
