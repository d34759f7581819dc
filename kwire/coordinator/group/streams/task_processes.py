"""Processes that have the tasks of a group: a task must not have two roles in one process, since they share its state.

The tasks that a member must still revoke count as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.tasks import TaskEpochs, TaskSets

_NOWHERE: Mapping[int, set[str]] = {}
_NO_OWNERS: Mapping[int, str] = {}


class TaskProcesses:
    """Process ids by task, for each role."""

    def __init__(self) -> None:
        self._active: dict[str, dict[int, str]] = {}
        self._standby: dict[str, dict[int, set[str]]] = {}
        self._warmup: dict[str, dict[int, set[str]]] = {}

    def active_owner(self, subtopology: str, partition: int) -> str | None:
        """Return the process that has the active task."""
        return self._active.get(subtopology, _NO_OWNERS).get(partition)

    def copies_state(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Return True if the process has the task as a standby task or a warm-up task."""
        return process_id in self._standby.get(subtopology, _NOWHERE).get(
            partition, ()
        ) or process_id in self._warmup.get(subtopology, _NOWHERE).get(partition, ())

    def add(self, member: StreamsMember) -> None:
        """Add the tasks of a member."""
        for tasks in (member.assigned, member.pending_revocation):
            for subtopology, epochs in tasks.active.items():
                self._active.setdefault(subtopology, {}).update(dict.fromkeys(epochs, member.process_id))
            _add(self._standby, tasks.standby, member.process_id)
            _add(self._warmup, tasks.warmup, member.process_id)

    def remove(self, member: StreamsMember) -> None:
        """Remove the tasks of a member; an active task that another process has received since stays."""
        for tasks in (member.assigned, member.pending_revocation):
            self._remove_active(tasks.active, member.process_id)
            _remove(self._standby, tasks.standby, member.process_id)
            _remove(self._warmup, tasks.warmup, member.process_id)

    def _remove_active(self, tasks: TaskEpochs, process_id: str) -> None:
        for subtopology, epochs in tasks.items():
            owners = self._active.get(subtopology)
            if owners is None:
                continue
            for partition in epochs:
                if owners.get(partition) == process_id:
                    del owners[partition]
            if not owners:
                del self._active[subtopology]


def _add(processes: dict[str, dict[int, set[str]]], tasks: TaskSets, process_id: str) -> None:
    for subtopology, partitions in tasks.items():
        by_partition = processes.setdefault(subtopology, {})
        for partition in partitions:
            by_partition.setdefault(partition, set()).add(process_id)


def _remove(processes: dict[str, dict[int, set[str]]], tasks: TaskSets, process_id: str) -> None:
    for subtopology, partitions in tasks.items():
        by_partition = processes.get(subtopology)
        if by_partition is None:
            continue
        for partition in partitions:
            held = by_partition.get(partition)
            if held is not None:
                held.discard(process_id)
                if not held:
                    del by_partition[partition]
        if not by_partition:
            del processes[subtopology]
