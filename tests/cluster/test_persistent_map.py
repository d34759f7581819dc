"""Persistent maps: they behave as dicts, keep earlier versions, and list the differences between two of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.persistent_map import BLOCK, UNUSED_MAX, PersistentMap, changed_keys, persistent

KEYS = st.integers(0, 3 * BLOCK)
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=40)
"""Changes (key, value); the value None removes the key."""


def apply(mapping: PersistentMap[int, Any], changes: list[tuple[int, int | None]]) -> PersistentMap[int, Any]:
    draft = mapping.draft()
    for key, value in changes:
        if value is None:
            draft.pop(key, None)
        else:
            draft[key] = [value]
        assert (key in draft) == (value is not None)
    return draft.finish()


def apply_to_dict(values: dict[int, Any], changes: list[tuple[int, int | None]]) -> dict[int, Any]:
    values = dict(values)
    for key, value in changes:
        if value is None:
            values.pop(key, None)
        else:
            values[key] = [value]
    return values


@given(st.lists(st.tuples(CHANGES, st.integers(0, 5)), max_size=12))
def test_maps_are_what_dicts_would_be(history: list[tuple[list[tuple[int, int | None]], int]]) -> None:
    """Each map derives from an earlier one, not always from the last: uncommitted versions may be dropped."""
    maps: list[tuple[PersistentMap[int, Any], dict[int, Any]]] = [(PersistentMap(), {})]
    for changes, back in history:
        mapping, model = maps[max(0, len(maps) - 1 - back)]
        maps.append((apply(mapping, changes), apply_to_dict(model, changes)))
    for mapping, model in maps:
        assert dict(mapping) == model
        assert dict(mapping.items()) == model
        assert len(mapping) == len(model)
        assert [mapping.get(key) for key in range(3 * BLOCK)] == [model.get(key) for key in range(3 * BLOCK)]
    for old, _ in maps:
        for new, _ in maps:
            keys = {*old, *new}
            assert set(changed_keys(old, new)) == {key for key in keys if old.get(key) is not new.get(key)}
            assert len(set(changed_keys(old, new))) == len(changed_keys(old, new))


@given(CHANGES)
def test_a_map_does_not_change_while_the_next_one_is_made(changes: list[tuple[int, int | None]]) -> None:
    before = persistent({key: [key] for key in range(0, 3 * BLOCK, 2)})
    model = dict(before)
    apply(before, changes)
    assert dict(before) == model


def test_keys_come_in_their_order() -> None:
    names = [f"t{number}" for number in range(200)]
    assert list(persistent(dict.fromkeys(names, 1))) == names


def test_a_missing_key_raises_key_error() -> None:
    mapping = persistent({"a": 1})
    without = mapping.draft()
    del without["a"]
    emptied = without.finish()
    for each in (PersistentMap[str, int](), emptied):
        assert "a" not in each
        with pytest.raises(KeyError):
            each["a"]
        with pytest.raises(KeyError):
            del each.draft()["a"]
    draft = emptied.draft()
    with pytest.raises(KeyError):
        draft["b"]
    with pytest.raises(KeyError):
        draft["a"]
    assert mapping["a"] == 1


def test_a_change_shares_all_other_blocks() -> None:
    before = persistent({key: key for key in range(100 * BLOCK)})
    after = apply(before, [(5 * BLOCK, 1)])
    shared = [old is new for old, new in zip(before.blocks, after.blocks, strict=True)]
    assert shared.count(False) == 1
    assert changed_keys(before, after) == [5 * BLOCK]


def test_slots_of_removed_keys_are_bounded() -> None:
    mapping = persistent({0: 0})
    for key in range(1, 5 * UNUSED_MAX):
        draft = mapping.draft()
        draft[key] = key
        del draft[key - 1]
        after = draft.finish()
        assert set(changed_keys(mapping, after)) == {key - 1, key}
        mapping = after
    assert dict(mapping) == {5 * UNUSED_MAX - 1: 5 * UNUSED_MAX - 1}
    assert len(mapping.index.keys) <= UNUSED_MAX + 4
