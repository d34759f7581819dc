"""Properties of the assignors. Equality with Kafka's is tested by compat_tests/assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.coordinator.group.assignors.assignors import CONSUMER_ASSIGNORS, assign_share, assign_uniform, assignor
from kwire.coordinator.group.assignors.range_assignor import assign_ranges
from kwire.coordinator.group.modern.assignor import Assign, AssignmentInput, MemberSubscription
from kwire.coordinator.group.modern.target_assignment import Partitions
from tests.coordinator.assignors.drawn_groups import Round, drawn_rounds

ALL = {"uniform": assign_uniform, "range": assign_ranges, "simple": assign_share}
SEEDS = range(80)


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    return [it for seed in SEEDS for it in drawn_rounds(seed)]


def topics(*counts: int) -> dict[UUID, int]:
    return {UUID(int=0x9E3779B97F4A7C15 * number): count for number, count in enumerate(counts, 1)}


def group_of(
    members: Mapping[str, MemberSubscription], counts: Mapping[UUID, int], *, is_homogeneous: bool = True
) -> AssignmentInput:
    owners: dict[UUID, dict[int, str]] = {}
    for member_id, member in members.items():
        for topic_id, partitions in member.target.items():
            owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))
    return AssignmentInput(
        members=members, is_homogeneous=is_homogeneous, owners=owners, partition_counts=counts, topic_names={}
    )


def with_targets(group: AssignmentInput, targets: Mapping[str, Partitions]) -> AssignmentInput:
    members = {member_id: member._replace(target=targets[member_id]) for member_id, member in group.members.items()}
    return replace(group_of(members, group.partition_counts), is_homogeneous=group.is_homogeneous)


def fresh(count: int, counts: Mapping[UUID, int]) -> AssignmentInput:
    return group_of({f"member-{number}": MemberSubscription(counts.keys(), {}) for number in range(count)}, counts)


def sizes(result: Mapping[str, Partitions]) -> list[int]:
    return [sum(map(len, partitions.values())) for partitions in result.values()]


def test_assignors_have_kafkas_names() -> None:
    prefix = "org.apache.kafka.coordinator.group.assignor."
    assert assignor("uniform") is assignor(f"{prefix}UniformAssignor")
    assert assignor("range") is assignor(f"{prefix}RangeAssignor")
    assert CONSUMER_ASSIGNORS == ("uniform", "range")


@pytest.mark.parametrize("name", ["simple", "Uniform", ""])
def test_an_unknown_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="use one of uniform, range"):
        assignor(name)


def test_each_member_has_a_result_without_empty_sets(rounds: list[Round]) -> None:
    for it in rounds:
        assert it.result.keys() == it.group.members.keys()
        assert all(partitions for target in it.result.values() for partitions in target.values())


def test_members_get_only_subscribed_topics(rounds: list[Round]) -> None:
    for it in rounds:
        for member_id, target in it.result.items():
            assert target.keys() <= it.group.members[member_id].topic_ids


def test_each_subscribed_partition_of_a_consumer_group_has_one_owner(rounds: list[Round]) -> None:
    for it in rounds:
        if it.name == "simple":
            continue
        owned = Counter(
            (topic_id, partition)
            for target in it.result.values()
            for topic_id, partitions in target.items()
            for partition in partitions
        )
        subscribed = {topic_id for member in it.group.members.values() for topic_id in member.topic_ids}
        counts = it.group.partition_counts
        assert owned == Counter({(topic_id, index): 1 for topic_id in subscribed for index in range(counts[topic_id])})


def test_homogeneous_uniform_assignments_are_balanced(rounds: list[Round]) -> None:
    for it in rounds:
        if it.name == "uniform" and it.group.is_homogeneous and it.result:
            assert max(sizes(it.result)) - min(sizes(it.result)) <= 1


def test_homogeneous_uniform_assignments_move_only_what_balance_needs(rounds: list[Round]) -> None:
    """A member below its quota loses nothing, and a member above it only the excess."""
    for it in rounds:
        if it.name != "uniform" or not it.group.is_homogeneous or not it.result:
            continue
        lowest = min(sizes(it.result))
        for member_id, member in it.group.members.items():
            before = {
                (topic, index) for topic in member.target.keys() & member.topic_ids for index in member.target[topic]
            }
            after = {(topic, index) for topic, indexes in it.result[member_id].items() for index in indexes}
            assert len(before & after) >= min(len(before), lowest)


def test_no_move_of_one_partition_improves_a_heterogeneous_uniform_assignment() -> None:
    counts = topics(7, 5, 12, 1)
    first, second, third, fourth = counts
    subscriptions = {"a": {first, second}, "b": {second, third}, "c": {third}, "d": {first, fourth}, "e": set(counts)}
    members = {member_id: MemberSubscription(topic_ids, {}) for member_id, topic_ids in subscriptions.items()}
    result = at_once(assign_uniform(group_of(members, counts, is_homogeneous=False)))
    loads = dict(zip(result, sizes(result), strict=True))
    for giver, target in result.items():
        for topic_id in target:
            assert all(
                loads[giver] - loads[taker] <= 1 for taker, topic_ids in subscriptions.items() if topic_id in topic_ids
            )


@pytest.mark.parametrize("name", ALL)
def test_a_second_run_changes_nothing(rounds: list[Round], name: str) -> None:
    for it in rounds:
        if it.name == name and it.group.assignable is None:
            assert at_once(ALL[name](with_targets(it.group, it.result))) == it.result


def owned_by(owners: Mapping[int, str], targets: Mapping[str, set[int]]) -> dict[str, Partitions]:
    """Return the uniform assignment of a topic with four partitions, whose stored targets overlap."""
    counts = topics(4)
    (topic_id,) = counts
    members = {
        member_id: MemberSubscription(counts.keys(), {topic_id: frozenset(indexes)} if indexes else {})
        for member_id, indexes in targets.items()
    }
    return at_once(assign_uniform(replace(group_of(members, counts), owners={topic_id: owners})))


@pytest.mark.parametrize(
    "owners",
    [
        {0: "b", 1: "a", 2: "b"},
        {1: "a", 2: "b"},  # the member that had partition 0 as well has left
    ],
)
def test_uniform_assignments_give_a_partition_of_two_targets_to_one_member(owners: dict[int, str]) -> None:
    result = owned_by(owners, {"a": {0, 1}, "b": {0, 2} if 0 in owners else {2}})
    assert sorted(it for target in result.values() for indexes in target.values() for it in indexes) == [*range(4)]
    assert sizes(result) == [2, 2]


def test_a_static_member_that_returns_keeps_the_partitions_of_its_former_member_id() -> None:
    result = owned_by({0: "former", 3: "former"}, {"returned": {0, 3}, "b": set()})
    assert [*result["returned"].values()] == [{0, 3}]


def test_ranges_are_contiguous_and_in_the_order_of_members() -> None:
    counts = topics(10, 10, 2)
    members = {
        "b": MemberSubscription(counts.keys(), {}),
        "a": MemberSubscription(counts.keys(), {}),
        "z": MemberSubscription(counts.keys(), {}, "static"),
    }
    result = at_once(assign_ranges(group_of(members, counts)))
    first, second, third = counts
    assert result["z"] == {first: {0, 1, 2, 3}, second: {0, 1, 2, 3}, third: {0}}
    assert result["a"] == {first: {4, 5, 6}, second: {4, 5, 6}, third: {1}}
    assert result["b"] == {first: {7, 8, 9}, second: {7, 8, 9}}


def test_a_partition_of_a_share_group_has_several_members() -> None:
    counts = topics(2)
    (topic_id,) = counts
    result = at_once(assign_share(fresh(6, counts)))
    assert sizes(result) == [1] * 6
    assert Counter(index for target in result.values() for index in target[topic_id]) == {0: 3, 1: 3}


def test_a_share_group_gets_assignable_partitions_only() -> None:
    counts = topics(4, 3)
    first, _ = counts
    for is_homogeneous in (True, False):
        group = replace(fresh(3, counts), assignable={first: {1, 3}}, is_homogeneous=is_homogeneous)
        result = at_once(assign_share(group))
        assert {(topic, index) for target in result.values() for topic in target for index in target[topic]} == {
            (first, 1),
            (first, 3),
        }


@pytest.mark.parametrize("assign", ALL.values())
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_groups_without_members_or_topics_have_no_partitions(assign: Assign, *, is_homogeneous: bool) -> None:
    counts = topics(3)
    assert at_once(assign(group_of({}, counts, is_homogeneous=is_homogeneous))) == {}
    unsubscribed = {"a": MemberSubscription(frozenset(), dict.fromkeys(counts, frozenset({0, 1})))}
    assert at_once(assign(group_of(unsubscribed, counts, is_homogeneous=is_homogeneous))) == {"a": {}}


@pytest.mark.parametrize("assign", ALL.values())
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_an_unknown_topic_is_an_error_if_subscribed_and_removed_from_targets(
    assign: Assign, *, is_homogeneous: bool
) -> None:
    counts = topics(2, 2)
    known, unknown = counts
    members = {"a": MemberSubscription({known}, {unknown: frozenset({0})})}
    group = group_of(members, {known: 2}, is_homogeneous=is_homogeneous)
    assert at_once(assign(group)) == {"a": {known: {0, 1}}}
    members = {"a": MemberSubscription({known, unknown}, {})}
    with pytest.raises(ValueError, match=f"topic {unknown}, which does not exist"):
        at_once(assign(group_of(members, {known: 2}, is_homogeneous=is_homogeneous)))


@pytest.mark.parametrize("assign", ALL.values())
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_work_is_in_many_steps(assign: Assign, *, is_homogeneous: bool) -> None:
    """The number of steps grows with the group; a step assigns at most about a thousand partitions."""
    counts = topics(*[100] * 30)
    steps = []
    for members in (10, 300):
        group = replace(fresh(members, counts), is_homogeneous=is_homogeneous)
        steps.append(sum(1 for _ in assign(group)))
    assert all(more >= fewer for fewer, more in pairwise(steps))
    assert steps[-1] >= 3
