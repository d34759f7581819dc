"""Placement of new replicas: striped over racks, fenced brokers last."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.chunks import at_once
from kwire.cluster.placement import UsableBroker, place
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import SystemRandomSource
from tests.log.support import FixedChance


def brokers(*ids: int, fenced: tuple[int, ...] = (), racks: dict[int, str] | None = None) -> list[UsableBroker]:
    return [UsableBroker(broker_id=each, rack=(racks or {}).get(each), is_fenced=each in fenced) for each in ids]


def placed(usable: list[UsableBroker], partitions: int, factor: int, seed: int = 7) -> list[list[int]]:
    return at_once(
        place(usable, partitions=partitions, replication_factor=factor, random_source=SystemRandomSource(seed))
    )


def test_one_broker_holds_everything() -> None:
    assert placed(brokers(1), 3, 1) == [[1], [1], [1]]


def test_replicas_go_round_racks_and_brokers() -> None:
    racks = {each: "abc"[each // 10] for each in (0, 1, 2, 10, 11, 12, 20, 21, 22)}
    found = at_once(
        place(brokers(*racks, racks=racks), partitions=3, replication_factor=3, random_source=FixedChance())
    )
    assert [[racks[broker] for broker in replicas] for replicas in found] == [
        ["c", "a", "b"],
        ["a", "b", "c"],
        ["b", "c", "a"],
    ]
    assert Counter(broker for replicas in found for broker in replicas) == dict.fromkeys(racks, 1)


def test_leaders_are_spread_evenly() -> None:
    found = placed(brokers(1, 2, 3, 4), 40, 2)
    assert Counter(replicas[0] for replicas in found) == dict.fromkeys((1, 2, 3, 4), 10)
    assert len({tuple(replicas) for replicas in found}) > 4, "orders are drawn anew after each round"


def test_fenced_brokers_come_last_and_never_lead() -> None:
    assert all(set(replicas) == {1, 2} for replicas in placed(brokers(1, 2, 3, fenced=(3,)), 6, 2))
    found = placed(brokers(1, 2, 3, fenced=(3,)), 6, 3)
    assert all(replicas[0] in (1, 2) and replicas[2] == 3 for replicas in found)


def test_a_rack_of_fenced_brokers_holds_followers_only() -> None:
    found = placed(brokers(1, 2, fenced=(2,), racks={1: "a", 2: "b"}), 4, 2)
    assert found == [[1, 2]] * 4


@pytest.mark.parametrize(
    ("usable", "factor", "says"),
    [
        (brokers(1, 2), 0, "must be positive"),
        (brokers(1, 2), -2, "must be positive"),
        ([], 1, "fenced"),
        (brokers(1, 2, fenced=(1, 2)), 1, "fenced"),
        (brokers(1, 2), 3, "only 2 broker"),
    ],
)
def test_invalid_placements_are_rejected(usable: list[UsableBroker], factor: int, says: str) -> None:
    with pytest.raises(KafkaError, match=says) as rejected:
        placed(usable, 1, factor)
    assert rejected.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    st.dictionaries(
        st.integers(0, 20), st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9
    ),
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(0, 1000),
)
def test_replicas_are_distinct_and_the_leader_lives(
    known: dict[int, tuple[str | None, bool]], partitions: int, factor: int, seed: int
) -> None:
    usable = [
        UsableBroker(broker_id=broker, rack=rack, is_fenced=is_fenced) for broker, (rack, is_fenced) in known.items()
    ]
    unfenced = {broker for broker, (_, is_fenced) in known.items() if not is_fenced}
    if not unfenced or factor > len(known):
        with pytest.raises(KafkaError):
            placed(usable, partitions, factor, seed)
        return
    for replicas in placed(usable, partitions, factor, seed):
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(known)
        assert replicas[0] in unfenced
