"""Fuzzers of state machines: random operations from a seed, checked by a model; a failure is shortened.

A model creates the production objects, does one operation after another, and raises AssertionError if a rule is broken.
An operation is a name and three numbers, which the model maps to existing objects. Therefore any subset of a seed's
operations can run, and operations that a failure does not need can be removed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

NUMBER_MAX: Final = 1 << 16
STEPS: Final = 60
"""Number of operations of a seed."""


class Operation(NamedTuple):
    """Operation: the name of a model's method, and its arguments."""

    name: str
    a: int
    b: int
    c: int


class Model(Protocol):
    """Model: the production objects and the rules."""

    def do(self, operation: Operation) -> None:
        """Do one operation and check its outcome. Raises AssertionError if a rule is broken."""

    def finish(self) -> None:
        """Complete all pending work and check the final state."""

    def close(self) -> None:
        """Release what the model holds."""


class Fuzzer(NamedTuple):
    """Fuzzer: a model and the frequency of each operation."""

    name: str
    make: Callable[[], Model]
    weights: Mapping[str, int]
    steps: int = STEPS
    seeds: int = 100
    """Number of seeds in `make test`."""


def operations_of(fuzzer: Fuzzer, seed: int) -> list[Operation]:
    """Return the operations of a seed."""
    random_source = random.Random(f"{fuzzer.name} {seed}")
    names = random_source.choices(list(fuzzer.weights), list(fuzzer.weights.values()), k=fuzzer.steps)
    return [Operation(name, *(random_source.randrange(NUMBER_MAX) for _ in range(3))) for name in names]


def run_operations(fuzzer: Fuzzer, operations: Sequence[Operation]) -> None:
    """Run a new model through the operations. Raises what the model raises."""
    model = fuzzer.make()
    try:
        for operation in operations:
            model.do(operation)
        model.finish()
    finally:
        model.close()


def run_seed(fuzzer: Fuzzer, seed: int) -> int:
    """Run one seed; return how many operations passed.

    Raises what the model raises, with the operations that the failure needs.
    """
    operations = operations_of(fuzzer, seed)
    if failure_of(fuzzer, operations) is None:
        return len(operations)
    operations = shortened(fuzzer, operations)
    try:
        run_operations(fuzzer, operations)
    except Exception as error:
        error.add_note("\n".join(map(str, operations)))
        error.add_note(f"python -m tests.fuzz.run {fuzzer.name} --seed {seed}")
        raise
    raise AssertionError(f"{fuzzer.name} seed {seed} fails once and then passes: it depends on more than its seed")


def failure_of(fuzzer: Fuzzer, operations: Sequence[Operation]) -> str | None:
    """Return the kind of failure that the operations lead to; None if there is none."""
    try:
        run_operations(fuzzer, operations)
    except Exception as error:  # noqa: BLE001 # a planted bug may raise anything
        return f"{type(error).__name__} {str(error).partition(':')[0]}"
    return None


def shortened(fuzzer: Fuzzer, operations: list[Operation]) -> list[Operation]:
    """Remove operations as long as the others fail in the same way."""
    kind = failure_of(fuzzer, operations)
    size = len(operations) // 2
    while size:
        start = 0
        while start < len(operations):
            fewer = operations[:start] + operations[start + size :]
            if failure_of(fuzzer, fewer) == kind:
                operations = fewer
            else:
                start += size
        size //= 2
    return operations
