"""Members of classic groups that restart at critical moments: static members with different protocols.

A member's process may be replaced by another one with the same group.instance.id between JoinGroup and SyncGroup. The
rules are: a member gets a protocol that it supports, and the assignment that the leader of its generation made for it
(G7). No request breaks an invariant of a group (cluster_rules.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.simulation import ClusterBroker, Simulation
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.connections import GROUP, Connections

GROUP_ID: Final = "places"
INSTANCES: Final = ("place-0", "place-1", None)
OFFERS: Final = (("a", "b"), ("b", "a"), ("b",), ("b", "c"))
SESSION_TIMEOUT_MS: Final = 6000
JOIN_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.5
RESTARTS: Final = 0.3
"""Probability that a process ends between JoinGroup and SyncGroup, and that it ends after SyncGroup."""


class PlaceKeeper(Connections):
    """A static member: a sequence of processes with one instance id."""

    def __init__(self, simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger, number: int) -> None:
        super().__init__(simulation, brokers, f"g{number}")
        self._ledger = ledger
        self._instance = INSTANCES[number]
        self._offers: tuple[str, ...] = OFFERS[0]
        self._member_id = ""
        self._coordinator: int | None = None

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            try:
                await self._live(end)
            except OSError:
                self._coordinator = None
            await self.pause(PAUSE_SECONDS, self._ledger)
        self.close()

    async def _ask(self, request: Any, version: int) -> Any:
        if self._coordinator is None:
            self._coordinator = await self.find_coordinator(GROUP_ID, GROUP)
        answer = await self.ask(self._coordinator, request, version, seconds=JOIN_SECONDS)
        self._note(answer.error_code)
        return answer

    def _note(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        elif code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = None

    def _restart(self) -> None:
        """Replace the member's process by another one, perhaps with other protocols."""
        self._member_id = ""
        self._offers = self._random_source.pick(OFFERS)
        self.close()

    async def _live(self, end: float) -> None:
        joined = await self._join()
        if joined is None:
            return
        if self._random_source.happens(RESTARTS):
            self._restart()
            return
        if not await self._synchronise(joined):
            return
        for _ in range(1 + self._random_source.below(6)):
            request = HeartbeatRequest(
                group_id=GROUP_ID,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._instance,
            )
            answer = await self._ask(request, 4)
            if answer.error_code or self._simulation.now >= end:
                return
            await asyncio.sleep(PAUSE_SECONDS)
        if self._random_source.happens(RESTARTS):
            self._restart()
        elif self._random_source.happens(RESTARTS):
            member = MemberIdentity(member_id=self._member_id, group_instance_id=self._instance)
            await self._ask(LeaveGroupRequest(group_id=GROUP_ID, members=[member]), 4)
            self._member_id = ""

    async def _join(self) -> JoinGroupResponse | None:
        while True:
            request = JoinGroupRequest(
                group_id=GROUP_ID,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type="places",
                protocols=[JoinGroupRequestProtocol(name=name, metadata=b"") for name in self._offers],
            )
            answer: JoinGroupResponse = await self._ask(request, self._random_source.pick((5, 9)))
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            if answer.error_code:
                return None
            assert answer.protocol_name in self._offers, (
                f"G7: {self.name} offers {self._offers} and is in a generation of {answer.protocol_name}"
            )
            self._member_id = answer.member_id
            return answer

    async def _synchronise(self, joined: JoinGroupResponse) -> bool:
        places = {each.member_id: each.group_instance_id or each.member_id for each in joined.members}
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._instance,
            protocol_type="places",
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=f"{joined.generation_id} {place}".encode())
                for member, place in places.items()
            ],
        )
        answer = await self._ask(request, 5)
        if answer.error_code:
            return False
        generation, _, place = bytes(answer.assignment).decode().partition(" ")
        assert (int(generation), place) == (joined.generation_id, self._instance or joined.member_id), (
            f"G7: {self.name} got {answer.assignment!r} in generation {joined.generation_id}"
        )
        return True
