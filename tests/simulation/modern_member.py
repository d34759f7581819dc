"""Base of the members of consumer groups and streams groups, which the coordinator assigns in epochs.

A member sends heartbeats with what it owns. It gives up what its assignment no longer contains, now or later, and owns
what is new. It dies without a word, or leaves, and comes back. Checks are:

- the epoch of a member never decreases, and a member that joins has no older epoch than another one before (G2);
- what a member owns goes to a history (Own), whose checker finds double owners;
- at the end, one member must own everything soon (G6).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.simulation import ClusterBroker, Simulation
from tests.history.operations import INFO, OK, Own
from tests.simulation.cluster_history import History
from tests.simulation.connections import GROUP, Connections

HEARTBEAT_SECONDS: Final = 1.0
REST_SECONDS: Final = 2.0
BEATS_MEAN: Final = 15.0
"""Average number of heartbeats in a member's life."""
REBALANCE_TIMEOUT_MS: Final = 4000
JOINS: Final = 0
LEAVES: Final = -1
GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class GroupEpochs:
    """Highest member epoch of a group so far."""

    def __init__(self, *, may_be_lost: bool = False) -> None:
        self.newest = 0
        self.may_be_lost = may_be_lost
        """True if faults may lose the records of the group, and its epochs with them."""


class ModernMember(Connections, ABC):
    """Member of a group whose coordinator assigns partitions or tasks."""

    group: str
    """Group id."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: Sequence[ClusterBroker],
        history: History,
        epochs: GroupEpochs,
        name: str,
    ) -> None:
        super().__init__(simulation, brokers, name)
        self._history = history
        self._epochs = epochs
        self._coordinator: int | None = None
        self._lives = 0
        self._begin_life()

    def _begin_life(self) -> None:
        self._lives += 1
        self.member_id = f"{self.name}-{self._lives}"
        self.epoch = JOINS
        self.assigned: set[str] = set()
        """Partitions or tasks in the last assignment."""
        self.owned: dict[str, Own] = {}
        self._given_up: list[Own] = []
        """Partitions or tasks that were given up since the last response."""

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await self._live(end)
            await asyncio.sleep(self._random_source.exponential(REST_SECONDS))
        self.close()

    async def _live(self, end: float) -> None:
        beats = 1 + self._random_source.exponential(BEATS_MEAN)
        while self._simulation.now < end and beats > 0:
            beats -= 1
            await self.attempt()
            await asyncio.sleep(self._random_source.exponential(HEARTBEAT_SECONDS))
        if self._random_source.happens(0.5):
            try:
                await self._leave()
            except OSError:
                self._coordinator = None
        self._lose_all()
        self._begin_life()
        self.close()

    async def attempt(self) -> None:
        """Send a heartbeat and work on what the member owns; ignore failures."""
        try:
            await self.beat()
            if self.epoch != JOINS:
                await self.work()
        except OSError:
            self._coordinator = None

    async def coordinate(self) -> int:
        """Return the coordinator of the group. Raises OSError."""
        if self._coordinator is None:
            self._coordinator = await self.find_coordinator(self.group, GROUP)
        return self._coordinator

    # --- heartbeats

    @abstractmethod
    async def send(self, epoch: int) -> Any:
        """Send a heartbeat, and return the response. Raises OSError."""

    @abstractmethod
    def assignment_in(self, answer: Any) -> set[str] | None:
        """Return the assignment in a response, or None without one."""

    async def work(self) -> None:
        """Work on what the member owns. Raises OSError."""

    async def beat(self) -> None:
        """Give up what is no longer assigned, send a heartbeat, and take over what is new. Raises OSError."""
        for key in sorted(self.owned.keys() - self.assigned):
            if self._random_source.happens(0.7):
                own = self.owned.pop(key)
                self._history.end(own, INFO)
                self._given_up.append(own)
        newest, before = self._epochs.newest, self.epoch
        answer = await self.send(before)
        code = ErrorCode(answer.error_code)
        if code in GONE:
            self._lose_all()
            self.epoch = JOINS
            return
        if code != ErrorCode.NONE:
            self._coordinator = None
            return
        least = 0 if self._epochs.may_be_lost else newest if before == JOINS else before
        if answer.member_epoch < least:
            raise AssertionError(f"G2: {self.member_id} has epoch {answer.member_epoch} after {before} and {newest}")
        self._follow(answer.member_epoch, self.assignment_in(answer))

    def _follow(self, epoch: int, assignment: set[str] | None) -> None:
        """Apply a response."""
        for own in self._given_up:
            own.outcome = OK
        self._given_up.clear()
        if assignment is not None:
            self.assigned = assignment
        if epoch != self.epoch:
            for key in sorted(self.owned.keys() & self.assigned):
                self._history.end(self.owned.pop(key), OK)
        self.epoch = epoch
        self._epochs.newest = max(self._epochs.newest, epoch)
        for key in sorted(self.assigned - self.owned.keys()):
            own = Own(process=self.member_id, group=self.group, generation=epoch, keys=[key])
            self.owned[key] = self._history.begin(own)

    def _lose_all(self) -> None:
        """Stop owning anything, as after an expired session; others may have it already."""
        for own in self.owned.values():
            self._history.end(own, INFO)
        self.owned.clear()
        self._given_up.clear()
        self.assigned = set()

    async def _leave(self) -> None:
        if self.epoch == JOINS:
            return
        owns = list(self.owned.values())
        for own in owns:
            self._history.end(own, INFO)
        epoch, self.owned, self.assigned = self.epoch, {}, set()
        answer = await self.send(LEAVES)
        if answer.error_code == ErrorCode.NONE:
            for own in owns:
                own.outcome = OK
            await self.after_leaving(epoch)

    async def after_leaving(self, epoch: int) -> None:
        """Send requests that must be rejected, because the member has left. Raises OSError."""
