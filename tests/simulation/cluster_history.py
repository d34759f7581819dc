"""The history of the clients that write to one topic which is never deleted, judged by tests/history.

Clients note each operation as it begins, and what came of it; nothing noted means that it may have happened. What the
checker calls bad is an AssertionError in the end.
"""

from __future__ import annotations

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
"""The invariants behind what the checker finds; all else is about the order of what was read."""
ORDER: Final = "S3"
SECOND: Final = 1_000_000_000

AnyOperation = TypeVar("AnyOperation", bound=Operation)


class History:
    """See the module's text."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.operations: list[Operation] = []
        self.topic_id = UUID(int=0)
        """Of the topic, once it is made."""
        self.excused = 0
        """Anomalies that were found, and are known of the classic protocol."""

    @property
    def now(self) -> float:
        return self._simulation.now * SECOND

    def begin(self, operation: AnyOperation) -> AnyOperation:
        """Something is asked for."""
        operation.invoked = self.now
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: str = OK) -> None:
        """This is what came of it."""
        operation.outcome, operation.completed = outcome, self.now

    def note(self, operation: Operation) -> None:
        """Something that takes no time."""
        self.begin(operation)
        self.end(operation)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Of what certainly happened: sends, ends of transactions, and partitions that were given to members."""
        done = [operation for operation in self.operations if operation.outcome == OK]
        return tuple(sum(isinstance(operation, kind) for operation in done) for kind in (Send, End, Own))  # type: ignore[return-value] # there are three

    @property
    def classic(self) -> int:
        """Transactions of the classic protocol that certainly ended."""
        classic = {each.transaction for each in self.operations if isinstance(each, Begin) and each.protocol == "v1"}
        ends = [each for each in self.operations if isinstance(each, End) and each.outcome == OK]
        return sum(end.transaction in classic for end in ends)

    def judge(self) -> None:
        """Raises AssertionError."""
        report = check(self.operations)
        self.excused = len(report.of(KNOWN))
        bad = report.bad
        if bad:
            rule = RULES.get(bad[0].name, ORDER)
            raise AssertionError(f"{rule}: {'; '.join(map(str, bad[:5]))}")
