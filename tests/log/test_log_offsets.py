"""Offsets of a log: they stay in order, and only the log's own methods change them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import kwire
from kwire.log.log_offsets import LogOffsets

NAMES = frozenset({"start", "end", "recovery_point", "first_dirty", "truncations"})


def offsets() -> LogOffsets:
    made = LogOffsets(start=10, end=10, recovery_point=50)
    made.recovered(100, 50)
    return made


def test_recovery_lowers_the_recovery_point_to_the_recovered_end() -> None:
    made = LogOffsets(start=10, end=10, recovery_point=50)
    made.recovered(40, 50)
    assert (made.end, made.recovery_point) == (40, 40)


def test_a_flush_that_began_before_a_truncation_makes_nothing_durable() -> None:
    made = offsets()
    before = made.truncations
    assert made.flushed(80, before)
    assert made.recovery_point == 80
    made.lower(recovery_point=60, first_dirty=0, start=60)
    made.cut_to(60)
    assert not made.flushed(80, before)
    assert made.recovery_point == 60


def test_a_flush_never_lowers_the_recovery_point() -> None:
    made = offsets()
    assert made.flushed(80, 0)
    assert made.flushed(70, 0)
    assert made.recovery_point == 80


def test_a_rolled_back_truncation_restores_the_bounds() -> None:
    made = offsets()
    made.cleaned(70)
    before = made.bounds
    made.restore(made.lower(recovery_point=5, first_dirty=5, start=5))
    assert made.bounds == before == (50, 70, 10)


def test_a_full_truncation_may_begin_below_the_log_start() -> None:
    made = offsets()
    made.lower(recovery_point=0, first_dirty=0, start=3)
    made.begin_at(3)
    assert (made.start, made.end, made.recovery_point, made.truncations) == (3, 3, 3, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.advance(99),
        lambda made: made.raise_start(9),
        lambda made: made.raise_start(101),
        lambda made: made.flushed(101, 0),
        lambda made: made.cleaned(-1),
        lambda made: made.cut_to(101),
        lambda made: made.cut_to(9),
        lambda made: made.cut_to(49),
    ],
)
def test_a_change_that_breaks_the_order_of_offsets_fails(change: Callable[[LogOffsets], object]) -> None:
    made = offsets()
    with pytest.raises(AssertionError):
        change(made)
    assert (made.start, made.end, made.bounds, made.truncations) == (10, 100, (50, 0, 10), 0)


def test_only_log_offsets_changes_its_fields() -> None:
    package = Path(kwire.__file__).parent
    changed = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and target.attr in NAMES
        and isinstance(target.value, ast.Attribute)
        and target.value.attr == "offsets"
    ]
    assert changed == []
