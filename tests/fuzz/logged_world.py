"""Base of the models of groups whose log holds commits back, loses its uncommitted end, or is loaded from a prefix."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Self

from kwire.cluster.partitions.partition import ACKS_ALL
from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.machine import GroupMachine
from kwire.coordinator.shard import Shard, ShardState
from kwire.log.batch_validation import AppendOrigin
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.protocol.records import iterate_headers
from tests.coordinator.group_script import settle
from tests.fuzz.fuzzing import Operation
from tests.fuzz.group_clients import Errors
from tests.fuzz.group_world import GroupWorld

GROUP: Final = "g"
READ_BYTES: Final = 1 << 20

Place = tuple[str, int]
"""Topic and partition of a committed offset."""


class LoggedWorld(GroupWorld):
    """World of a model with one group, whose log can be cut at the end of any batch."""

    def __init__(self) -> None:
        super().__init__()
        self._is_held = False
        self._committed: dict[Place, int] = {}
        """Acknowledged offsets of topics that exist."""
        self._count = 0
        self._errors = Errors()
        self._logger = logging.getLogger("kwire.coordinator")
        self._level = self._logger.level
        self._logger.addHandler(self._errors)
        self._logger.setLevel(logging.ERROR)  # hides warnings of failures that the operations cause

    def close(self) -> None:
        self._release()
        super().close()
        self._logger.removeHandler(self._errors)
        self._logger.setLevel(self._level)

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b, operation.c)
        self._check()

    # --- log

    def hold_commits(self, _a: int, _b: int, _c: int) -> None:
        if not self._is_rejecting:
            self._is_held = True
            self._world.hold_commits()

    def release_commits(self, _a: int, _b: int, _c: int) -> None:
        self._release()

    def _release(self) -> None:
        async def release() -> None:
            self._world.release_commits()

        if self._is_held:
            self._is_held = False
            self._run(release())

    def reject_appends(self, a: int, b: int, c: int) -> None:
        if not self._is_held:
            super().reject_appends(a, b, c)

    def _accept_appends(self) -> None:
        self._is_rejecting = False
        self._world.reject_appends(reject=False)

    def restart(self, _a: int, _b: int, _c: int) -> None:
        """Stop the broker and load the group again from its log: it is the one that was written."""
        self._release()
        before = self._written()
        self._world.stop()
        self._loop.run_until_complete(settle())
        self._run(self._world.start())
        self._world.reject_appends(reject=self._is_rejecting)
        self._reloaded()
        assert before is None or self._written() == before, "restart: the loaded group differs"

    def fail_over(self, a: int, _b: int, _c: int) -> None:
        """Let another coordinator lead, whose log lacks some of the uncommitted records."""
        partition = self._world.offsets_partition()
        committed, end = partition.high_watermark, partition.log.log_end_offset

        async def lead() -> None:
            runtime = self._world.groups._runtime
            runtime.resign(0)
            await settle()
            partition.log.truncate_to(committed + a % (end - committed + 1))
            self._is_held = False
            self._world.release_commits()
            runtime.lead(partition)
            await runtime.loaded()

        self._run(lead())
        self._reloaded()

    def load_prefix(self, a: int, b: int, _c: int) -> None:
        """Let another broker load a prefix of the log's records, and continue."""
        batches = self._batches()
        other = type(self)()
        try:
            self._prepare(other, b)
            other._load(batches[: a % (len(batches) + 1)])
            other._check()
            other.finish()
        finally:
            other.close()

    def _prepare(self, other: Self, b: int) -> None:
        """Give another broker what is not in the log: topics, settings and members."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let the group settle, and check it."""
        raise NotImplementedError

    def _batches(self) -> list[bytes]:
        """Return the batches of the group's log."""
        log = self._world.offsets_partition().log
        batches, offset = [], log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, READ_BYTES)
            for position, header in iterate_headers(data):
                batches.append(bytes(data[position : position + header.size_in_bytes]))
                offset = header.next_offset
        return batches

    def _load(self, batches: Sequence[bytes]) -> None:
        """Load the group from these batches, as a replica does that becomes the leader."""
        partition = self._world.offsets_partition()

        async def load() -> None:
            runtime = self._world.groups._runtime
            runtime.resign(0)
            for batch in batches:
                partition.append(batch, acks=ACKS_ALL, origin=AppendOrigin.COORDINATOR)
            runtime.lead(partition)
            await runtime.loaded()

        self._run(load())
        self._reloaded()

    def _written(self) -> Any:
        """Return the state of the group that its records describe; None if they do not describe all of it."""
        raise NotImplementedError

    def _reloaded(self) -> None:
        """Forget what a coordinator does not store."""

    # --- offsets

    def _commit(self, place: Place, member_id: str, epoch: int, instance_id: str | None = None) -> ErrorCode:
        """Commit the next offset as a member, and remember it if it is acknowledged."""
        self._count += 1
        offset, (name, index) = self._count, place
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        topic_id = self._world.image.topics[name].topic_id
        topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=topics,
        )
        (answered,) = self._answered(lambda: self._world.groups.commit_offsets(request, topics, version=9))
        code = ErrorCode(answered.partitions[0].error_code)
        if not code:
            self._committed[place] = offset
        return code

    def _check_offsets(self) -> None:
        """Check that each acknowledged offset can be fetched."""
        places = {place: offset for place, offset in self._committed.items() if place[0] in self._world.image.topics}
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[index]) for name, index in places]
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        response = self._answered(lambda: self._world.groups.fetch_offsets(request, require_stable=False))
        found = {(each.name, each.partitions[0].partition_index): each.partitions[0] for each in response.topics}
        for place, offset in places.items():
            assert found[place].committed_offset == offset, f"offset: {found[place]} of {place}, not {offset}"

    # --- coordinator

    def _answered(self, send: Any) -> Any:
        """Send a request and wait for its response."""

        async def wait() -> Any:
            answer = send()
            return await answer if isinstance(answer, Awaitable) else answer

        return self._run(wait())

    def _shard(self) -> Shard[Any, GroupMachine]:
        shard = self._world.groups._runtime.find(0)
        assert shard is not None
        return shard

    def _any_group(self) -> AnyGroup | None:
        return self._shard().machine.groups.get(GROUP)

    def _timers_of(self, purpose: str) -> set[str]:
        """Return the members that have a timer of this purpose."""
        return {name[2] for name in self._timers() if name[0] == purpose and len(name) > 2}

    def _timers(self) -> list[tuple[str, ...]]:
        """Return the names of the group's timers."""
        names: list[Any] = list(self._shard().timers._timers)
        return [name for name in names if isinstance(name, tuple) and name[1] == GROUP]

    def _check(self) -> None:
        error = self._errors.first
        assert error is None, f"invariant: {error.getMessage()} {error.exc_info}"
        assert self._shard().state is ShardState.ACTIVE, "invariant: the shard is closed"
        group = self._any_group()
        if group is not None:
            try:
                group.check_invariants()
            except AssertionError as broken:
                raise AssertionError(f"invariant: {broken}") from broken
