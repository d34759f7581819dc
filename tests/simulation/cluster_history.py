"""The history of the clients that write to one topic which is never deleted, judged by tests/history.

Clients note each operation as it begins, and what came of it; nothing noted means that it may have happened. What the
checker calls bad is an AssertionError in the end.
"""

from __future__ import annotations

from typing import Final, TypeVar
from uuid import UUID

from kwire.simulation import Simulation
from tests.history.checker import check
from tests.history.operations import OK, End, Operation, Own, Send

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

    def judge(self) -> None:
        """Raises AssertionError."""
        bad = check(self.operations).bad
        if bad:
            rule = RULES.get(bad[0].name, ORDER)
            raise AssertionError(f"{rule}: {'; '.join(map(str, bad[:5]))}")
