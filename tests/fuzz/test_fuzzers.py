"""Fuzzers: seeds of each pass; many more run in `make campaign FUZZ=3600`."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.fuzzing import Fuzzer, Operation, failure_of, operations_of, run_seed, shortened


@pytest.mark.parametrize("name", FUZZERS)
def test_the_first_seeds_of_each_fuzzer_pass(name: str) -> None:
    fuzzer = FUZZERS[name]
    assert all(run_seed(fuzzer, seed) == fuzzer.steps for seed in range(1, fuzzer.seeds + 1))


class Sum:
    """Model that fails after two numbers divisible by three."""

    def __init__(self) -> None:
        self.taken = 0

    def do(self, operation: Operation) -> None:
        self.taken += operation.a % 3 == 0
        assert self.taken < 2, "sum: too many"

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_failure_is_shortened_to_what_it_needs() -> None:
    fuzzer = Fuzzer("sum", Sum, {"take": 1})
    operations = operations_of(fuzzer, 1)
    assert operations == operations_of(fuzzer, 1)
    assert failure_of(fuzzer, operations) == "AssertionError sum"
    left = shortened(fuzzer, operations)
    assert [operation.a % 3 for operation in left] == [0, 0]
    with pytest.raises(AssertionError, match="sum: too many") as raised:
        run_seed(fuzzer, 1)
    assert "python -m tests.fuzz.run sum --seed 1" in raised.value.__notes__
