"""Bugs of streams groups, which tests/fuzz/streams_group_model.py finds."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import pytest

from kwire.coordinator.group.streams import commit_checks, heartbeats
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeats
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.task_processes import TaskProcesses
from kwire.coordinator.group.streams.tasks import NOTHING_ASSIGNED, Tasks
from kwire.coordinator.group.streams.topology_updates import TopologyUpdates
from tests.planted.bug import Catalogue, never, nothing

STREAMS_BUGS: Final = Catalogue()
_bug = STREAMS_BUGS.bug
_FOUND_BY: Final = "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[streams-group]"


@_bug("G8", _FOUND_BY)
def a_task_is_free_before_it_is_closed(patch: pytest.MonkeyPatch) -> None:
    """An active task that its owner must still revoke is assigned to another member."""
    add = TaskProcesses.add

    def add_assigned(processes: TaskProcesses, member: StreamsMember) -> None:
        add(processes, dataclasses.replace(member, pending_revocation=NOTHING_ASSIGNED))

    patch.setattr(TaskProcesses, "add", add_assigned)
    patch.setattr(StreamsGroup, "check_invariants", nothing)


@_bug("G8", _FOUND_BY)
def a_member_moves_on_without_revoking(patch: pytest.MonkeyPatch) -> None:
    """The tasks that a member reports are not compared with those that it must revoke."""
    patch.setattr(Tasks, "overlaps", never)


@_bug("G8", _FOUND_BY)
def a_process_gets_a_task_in_two_roles(patch: pytest.MonkeyPatch) -> None:
    """A task that a process still has as a standby task becomes an active one in the same process."""
    patch.setattr(TaskProcesses, "copies_state", never)


@_bug("G2", _FOUND_BY)
def any_epoch_of_a_streams_member_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat with a newer epoch than that of the member, or with an old one, is accepted."""
    patch.setattr(heartbeats, "check_epoch", nothing)


@_bug("G3", _FOUND_BY)
def a_streams_member_commits_with_any_older_epoch(patch: pytest.MonkeyPatch) -> None:
    """A commit with an older epoch is accepted for tasks that the member does not have any more."""
    patch.setattr(commit_checks, "_partition_check", nothing)


@_bug("G6", _FOUND_BY)
def loaded_streams_members_have_no_session(patch: pytest.MonkeyPatch) -> None:
    """A coordinator starts no sessions for loaded streams groups: members that are gone stay in them."""
    patch.setattr(StreamsHeartbeats, "loaded", nothing)


@_bug("G6", _FOUND_BY)
def a_request_to_stop_outlives_its_members(patch: pytest.MonkeyPatch) -> None:
    """The request to stop the application stays when the last member has left: the next members stop as well."""
    remove_member = StreamsGroup.remove_member

    def remove(group: StreamsGroup, member_id: str) -> None:
        requested_by = group.shutdown_requested_by
        remove_member(group, member_id)
        group.shutdown_requested_by = requested_by

    patch.setattr(StreamsGroup, "remove_member", remove)


@_bug("G6", _FOUND_BY)
def a_topology_stays_configured_for_topics_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    """A change of the topics that could not be stored and is then undone leaves the topology configured for it."""
    update = TopologyUpdates.update

    def compare_with_stored(updates: TopologyUpdates, change: Any, *arguments: Any) -> Any:
        group = change.group
        if group.configured is not None:
            group.configured = dataclasses.replace(group.configured, metadata_hash=group.metadata_hash)
        return update(updates, change, *arguments)

    patch.setattr(TopologyUpdates, "update", compare_with_stored)
