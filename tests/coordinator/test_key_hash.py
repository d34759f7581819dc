"""Mapping of a group id to its partition of __consumer_offsets."""

from __future__ import annotations

import pytest

from kwire.coordinator.key_hash import java_string_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("\N{GRINNING FACE}", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_the_key_hash_is_that_of_a_java_string(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_hash_int32_min_maps_to_partition_0() -> None:
    assert partition_of("polygenelubricants", 50) == 0


def test_partitions_are_in_range() -> None:
    assert {partition_of(f"group-{number}", 7) for number in range(200)} == set(range(7))
