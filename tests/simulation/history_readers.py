"""Consumers of a history, and members of a classic group that share its partitions."""

from __future__ import annotations

import json
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.history.operations import COMMITTED, FAIL, INFO, OK, SUBSCRIBE, Assign, Own, Restore, Store
from tests.history.operations import Final as Read
from tests.simulation.cluster_history import KEYS, PARTITIONS, TOPIC
from tests.simulation.connections import GROUP
from tests.simulation.history_worker import RejectedError, Worker

PAUSE_SECONDS: Final = 0.8
MEMBERS: Final = "members"
SESSION_TIMEOUT_MS: Final = 6000
JOIN_SECONDS: Final = 10.0
ROUNDS_MAX: Final = 12
"""Average number of rounds until a member leaves its group."""


class Reader(Worker):
    """Consumer that reads all partitions repeatedly from its positions."""

    level = COMMITTED

    async def run(self, end: float) -> None:
        """Work until the end time."""
        self._history.note(Assign(process=self.name, keys=list(KEYS)))
        positions = dict.fromkeys(range(PARTITIONS), 0)
        while self._simulation.now < end:
            await self.pause(PAUSE_SECONDS, self._ledger)
            index = self._random_source.below(PARTITIONS)
            try:
                found = await self.fetch(index, positions[index], self.level)
            except OSError:
                self._leaders.clear()
                continue
            positions[index] = positions[index] if found is None else found[1]
        self.close()

    async def read_all(self, index: int) -> None:
        """Read one partition from its beginning to its end. Raises RejectedError."""
        end = await self.end_of(index, self.level)
        position = 0

        async def attempt() -> tuple[int, Any]:
            found = await self.fetch(index, position, self.level)
            return (ErrorCode.REQUEST_TIMED_OUT, None) if found is None else (ErrorCode.NONE, found[1])

        self._history.note(Assign(process=self.name, keys=[KEYS[index]]))
        while position < end:
            later = await self.until(attempt)
            assert later > position, f"R1: {KEYS[index]} ends at {position} of {end}"
            position = later
        self._history.note(Read(process=self.name, key=KEYS[index], end=end, level=self.level))

    async def end_of(self, index: int, level: str) -> int:
        """Return the last stable offset, or the high watermark. Raises RejectedError."""
        asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST, current_leader_epoch=-1)
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=int(level == COMMITTED), topics=topics)

        async def attempt() -> tuple[int, Any]:
            leader = await self.leader_of(index)
            answer = (await self.ask(leader.broker_id, request, 7)).topics[0].partitions[0]
            return answer.error_code, answer

        offset: int = (await self.until(attempt)).offset
        return offset

    async def restore(self, group: str, keys: list[str]) -> dict[str, int]:
        """Return the committed offsets of a group, -1 for none. Raises RejectedError."""
        indexes = [KEYS.index(key) for key in keys]
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=indexes)
        asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        restore = self._history.begin(Restore(process=self.name, group=group))

        async def attempt() -> tuple[int, Any]:
            restore.invoked = self._history.now
            answer = (await self.ask(await self.coordinator(group, GROUP), request, 9)).groups[0]
            rejected = [part.error_code for topic in answer.topics for part in topic.partitions if part.error_code]
            return answer.error_code or (rejected[0] if rejected else ErrorCode.NONE), answer

        self.number()
        answer = await self.until(attempt)
        found = answer.topics[0].partitions
        for part in found:
            self.note_epoch(part.partition_index, part.committed_leader_epoch)
        restore.offsets = {KEYS[part.partition_index]: part.committed_offset for part in found}
        self._history.end(restore)
        return dict(restore.offsets)


class UncommittedReader(Reader):
    """Consumer with read_uncommitted, which also reads undecided records."""

    level = "uncommitted"


class Member(Reader):
    """Group member that joins, reads its partitions, commits its positions, leaves, and joins again."""

    _member_id = ""
    _generation = -1

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            try:
                await self._live(end)
            except (OSError, RejectedError):
                self._coordinators.clear()
                self._leaders.clear()
            await self.pause(PAUSE_SECONDS, self._ledger)
        self.close()

    async def _live(self, end: float) -> None:
        """Run one generation."""
        joined = await self._join()
        keys = await self._synchronise(joined)
        own = Own(process=self.name, group=MEMBERS, generation=self._generation, keys=keys)
        if keys:
            self._history.begin(own)
        outcome = INFO
        try:
            positions = {key: max(0, at) for key, at in (await self.restore(MEMBERS, keys)).items()} if keys else {}
            outcome = await self._read_on(positions, end)
        finally:
            self._history.end(own, outcome)
        if outcome == OK and self._random_source.happens(0.3):
            await self._leave()

    async def _join(self) -> JoinGroupResponse:
        self.number()
        while True:
            request = JoinGroupRequest(
                group_id=MEMBERS,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="shares",
                protocols=[JoinGroupRequestProtocol(name="in-turn", metadata=b"")],
            )
            target = await self.coordinator(MEMBERS, GROUP)
            answer: JoinGroupResponse = await self.ask(target, request, 9, seconds=JOIN_SECONDS)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self._member_id, self._generation = answer.member_id, answer.generation_id
            return answer

    def _check(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code != ErrorCode.NONE:
            raise RejectedError(code, is_certain=True)

    async def _synchronise(self, joined: JoinGroupResponse) -> list[str]:
        """Return the partitions that the member owns in this generation."""
        members = sorted(member.member_id for member in joined.members) if joined.leader == self._member_id else []
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member, assignment=json.dumps(list(KEYS[place :: len(members)])).encode()
            )
            for place, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=MEMBERS,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="shares",
            protocol_name="in-turn",
            assignments=assignments,
        )
        answer = await self.ask(await self.coordinator(MEMBERS, GROUP), request, 5, seconds=JOIN_SECONDS)
        self._check(answer.error_code)
        keys: list[str] = json.loads(answer.assignment) if answer.assignment else []
        return keys

    async def _read_on(self, positions: dict[str, int], end: float) -> str:
        """Read until the group rebalances, or the member is to leave. Raises OSError, RejectedError."""
        rounds = self._random_source.exponential(ROUNDS_MAX)
        while await self._is_current():
            if self._simulation.now >= end or rounds <= 0:
                return OK
            rounds -= 1
            if positions:
                key = self._random_source.pick(sorted(positions))
                found = await self.fetch(KEYS.index(key), positions[key], self.level, SUBSCRIBE)
                if found is not None and found[1] > positions[key]:
                    positions[key] = found[1]
                    await self._commit({key: found[1]})
            await self.pause(PAUSE_SECONDS, self._ledger)
        return OK

    async def _is_current(self) -> bool:
        """Return True if the member's generation is current; otherwise a rebalance waits for it. Raises OSError,
        RejectedError.
        """
        request = HeartbeatRequest(group_id=MEMBERS, generation_id=self._generation, member_id=self._member_id)
        code = (await self.ask(await self.coordinator(MEMBERS, GROUP), request, 4)).error_code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        self._check(code)
        return True

    async def _commit(self, offsets: dict[str, int]) -> None:
        self.number()
        store = Store(process=self.name, group=MEMBERS, offsets=offsets, generation=self._generation)
        self._history.begin(store)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=KEYS.index(key),
                committed_offset=offset,
                committed_leader_epoch=self.known_epoch(KEYS.index(key)),
                committed_metadata="",
            )
            for key, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=MEMBERS,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        answer = await self.ask(await self.coordinator(MEMBERS, GROUP), request, 8)
        code = answer.topics[0].partitions[0].error_code
        is_rejected = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        if code == ErrorCode.NONE:
            self._history.end(store)
        elif is_rejected:
            self._history.end(store, FAIL)
        self._check(code)

    async def _leave(self) -> None:
        member = MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(group_id=MEMBERS, members=[member])
        await self.ask(await self.coordinator(MEMBERS, GROUP), request, 4)
        self._member_id = ""
