"""Hash codes and iteration orders, compared with values that a JDK printed."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.coordinator.group.assignors.group_order import members_in_order
from kwire.coordinator.group.assignors.java_order import (
    in_bins,
    numbers_after_adds,
    partitions_in_order,
    size_after_computes,
    size_of_copy,
    size_of_expected,
    spread,
    string_hash,
    string_order_key,
    uuid_hash,
)
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.modern.assignor import AssignmentInput, MemberSubscription

STRIDE_16 = (0, 16, 32, 48, 64, 80, 96, 112)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("Aa", 2112),
        ("BB", 2112),
        ("consumer-1-6c3d9f0a", 1050821071),
        ("é\U0001f600\ufffd", 61966705),
    ],
)
def test_hash_codes_of_strings(text: str, code: int) -> None:
    assert string_hash(text) == code


@pytest.mark.parametrize("text", ["ab" * 1000, "xyz" * 1024, "é😀" * 5000])
def test_the_hash_code_of_a_long_string_is_that_of_its_polynomial(text: str) -> None:
    code = 0
    encoded = text.encode("utf-16-le")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2], "little")) % (1 << 32)
    assert string_hash(text) == code


def test_long_member_ids_are_hashed_in_short_steps() -> None:
    members = {f"{number}{'x' * 8000}": MemberSubscription(frozenset(), {}) for number in range(20)}
    group = AssignmentInput(members=members, is_homogeneous=True, owners={}, partition_counts={}, topic_names={})
    assert sum(1 for _ in members_in_order(group, Pace())) >= 8


def test_hash_code_of_a_topic_id() -> None:
    assert uuid_hash(UUID("2e05c859-9c49-ea4e-88f2-9748461e4d40")) == 2090924063


def test_strings_are_sorted_by_utf_16_code_units() -> None:
    assert sorted(["\uffff", "\U0001f600", "b"], key=string_order_key) == ["b", "\U0001f600", "\uffff"]


@pytest.mark.parametrize(
    ("partitions", "order"),
    [
        ([*STRIDE_16, 128, 144], [0, 32, 64, 96, 128, 16, 48, 80, 112, 144]),
        ([5, 21, 37, 70, 100], [100, 5, 21, 37, 70]),
        ([1, 5, 20, *range(33, 41), 63], [1, 33, 34, 35, 36, 5, 37, 38, 39, 40, 20, 63]),
    ],
)
def test_order_of_partitions_from_a_record(partitions: list[int], order: list[int]) -> None:
    assert partitions_in_order(frozenset(partitions)) == order


@pytest.mark.parametrize(
    ("numbers", "order"),
    [
        ([1, 5, 20, *range(33, 41), 63], [1, 33, 34, 35, 20, 36, 5, 37, 38, 39, 40, 63]),
        ([40, 8, 24, 56, 3], [3, 40, 8, 24, 56]),
        ([144, *STRIDE_16], [0, 32, 64, 96, 144, 16, 48, 80, 112]),
    ],
)
def test_order_of_added_numbers(numbers: list[int], order: list[int]) -> None:
    """The table of the first case keeps its size: twelve is 3/4 of it. A bin of the last case has nine numbers."""
    assert numbers_after_adds(numbers) == order


@pytest.mark.parametrize(
    ("numbers", "size", "order"),
    [
        ([*STRIDE_16[:7], 1], 16, [96, 80, 64, 48, 32, 16, 0, 1]),
        (STRIDE_16, 16, [96, 64, 32, 0, 112, 80, 48, 16]),
        ([9, 5, 1, 13], 4, [13, 1, 5, 9]),
    ],
)
def test_order_after_compute_if_absent(numbers: list[int], size: int, order: list[int]) -> None:
    codes = [spread(number) for number in numbers]
    size = size_after_computes(codes, size, is_last_call_new=True)
    assert in_bins(numbers[::-1], codes[::-1], size) == order


def test_compute_if_absent_resizes_in_the_next_call() -> None:
    codes = list(range(13))
    assert size_after_computes(codes, 16, is_last_call_new=True) == 16
    assert size_after_computes(codes, 16, is_last_call_new=False) == 32


def test_initial_sizes() -> None:
    assert [size_of_copy(count) for count in (0, 11, 12, 23, 24)] == [16, 16, 32, 32, 64]
    assert [size_of_expected(count) for count in (0, 1, 10, 11, 12)] == [2, 4, 16, 32, 32]
