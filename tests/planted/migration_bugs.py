"""Bugs in the migration between the classic and the consumer protocol, which tests/fuzz/migration_model.py finds."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import pytest

from kwire.coordinator.group import committing
from kwire.coordinator.group.consumer import migration
from kwire.coordinator.group.consumer.classic_members import ClassicMembers
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.consumer.migration import Migration
from kwire.coordinator.group.consumer.settings import MigrationPolicy
from tests.planted.bug import Catalogue, always, never, nothing

MIGRATION_BUGS: Final = Catalogue()
_bug = MIGRATION_BUGS.bug
_FOUND_BY: Final = "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[migration]"


@_bug("G6", _FOUND_BY)
def any_policy_allows_an_upgrade(patch: pytest.MonkeyPatch) -> None:
    """A classic group with members becomes a consumer group, although the migration policy forbids it."""
    patch.setattr(MigrationPolicy, "allows_upgrade", property(always))


@_bug("G6", _FOUND_BY)
def a_group_is_not_downgraded(patch: pytest.MonkeyPatch) -> None:
    """A consumer group stays one when its last member of the consumer protocol has left."""
    patch.setattr(Migration, "_can_downgrade_without", never)


@_bug("G6", _FOUND_BY)
def upgraded_members_have_no_assignment(patch: pytest.MonkeyPatch) -> None:
    """Members of a classic group have no partitions after the upgrade: others receive them at once."""
    upgraded = migration._upgraded

    def without_assignment(*arguments: Any) -> ConsumerMember:
        return dataclasses.replace(upgraded(*arguments), assigned_partitions={})

    patch.setattr(migration, "_upgraded", without_assignment)


@_bug("G2", _FOUND_BY)
def a_downgraded_group_begins_its_generations_anew(patch: pytest.MonkeyPatch) -> None:
    """The classic group after a downgrade has generation 1."""
    classic_group = Migration._classic_group

    def begin_anew(*arguments: Any) -> Any:
        classic = classic_group(*arguments)
        classic.generation_id = 1
        return classic

    patch.setattr(Migration, "_classic_group", begin_anew)


@_bug("G6", _FOUND_BY)
def an_upgrade_starts_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """The sessions of classic members end with the upgrade, and no others begin."""

    def cancel(migration: Migration, group: Any) -> None:
        for member in group.members.values():
            migration._timeouts.cancel(group.group_id, member.member_id)

    patch.setattr(Migration, "outcome_of_upgrade", cancel)


@_bug("G3", _FOUND_BY)
def members_of_a_consumer_group_commit_at_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """The generation or epoch of a commit to a consumer group is not checked."""
    patch.setattr(committing, "check_commit", nothing)


@_bug("G6", _FOUND_BY)
def classic_members_need_not_rejoin(patch: pytest.MonkeyPatch) -> None:
    """A classic member of a consumer group does not receive REBALANCE_IN_PROGRESS when its target changes."""
    patch.setattr(ClassicMembers, "_must_rejoin", never)
