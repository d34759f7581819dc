"""Clients of a share group in a simulated cluster: a producer, and members that acquire and acknowledge its records.

A member joins with ShareGroupHeartbeat, and opens a share session with each leader of its partitions. It accepts,
releases and rejects records: with its next fetch, alone, or too late. It dies without a word or leaves, and comes back.
All events go to a history (share_history.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.records import decode_all
from kwire.simulation import ClusterBroker, Simulation, WireClient
from tests.history.share_events import (
    ACCEPT,
    FAIL,
    INFO,
    OK,
    REJECT,
    RELEASE,
    Acknowledged,
    Alive,
    Delivery,
    Lease,
    Sent,
    Start,
    Unanswered,
)
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.connections import GIVE_UP_SECONDS, GROUP
from tests.simulation.share_history import PARTITIONS, SHARE_GROUP, TOPIC, ShareHistory
from tests.support.requests import batch, produce_request

SEND_SECONDS: Final = 0.8
STEP_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 2.0
REST_SECONDS: Final = 1.0
BATCH_MAX: Final = 5
STEPS: Final = (*("fetch",) * 10, *("acknowledge",) * 4, *("late",) * 3, "describe")
KINDS: Final = (*(ACCEPT,) * 5, *(RELEASE,) * 4, REJECT)
STEPS_MEAN: Final = 40.0
"""Average number of steps of a member's life."""
OPENS: Final = 0
CLOSES: Final = -1
LEAVES: Final = -1
WITHOUT_EFFECT: Final = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""Error codes of acknowledgements that have changed nothing."""


class ShareProducer(Client):
    """Producer of the records that the share group consumes."""

    def __init__(
        self, simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger, history: ShareHistory
    ) -> None:
        super().__init__(simulation, brokers, ledger, "share-producer")
        self._history = history

    async def run(self, end: float) -> None:
        """Send batches with acks=all until the end time."""
        while self._simulation.now < end:
            await asyncio.sleep(self._random_source.exponential(SEND_SECONDS))
            try:
                await self._send()
            except OSError:
                self._leaders.clear()
        self.close()

    async def _send(self) -> None:
        key = self._history.topic_id, self._random_source.below(PARTITIONS)
        leader = await self.leader_of(key)
        if leader is None:
            return
        self._count += 1
        values = [f"{self.name}-{self._count}-{n}".encode() for n in range(1 + self._random_source.below(BATCH_MAX))]
        for value in values:
            self._ledger.send(key, value)
        request = produce_request("", batch(*values), partition=key[1], topic_id=key[0])
        invoked = self._history.now
        answer = (await self.ask(leader.broker_id, request, 13)).responses[0].partition_responses[0]
        if answer.error_code != ErrorCode.NONE:
            self._leaders.pop(key, None)
            return
        first, last = answer.base_offset, answer.base_offset + len(values) - 1
        for offset, value in enumerate(values, first):
            self._ledger.acknowledge(key, offset, value)
        done = self._history.now
        self._history.note(Sent(partition=key[1], invoked=invoked, completed=done, first=first, last=last))


@dataclass(slots=True)
class Session:
    """Share session with one broker, on one connection."""

    name: str
    broker_id: int
    wire: WireClient
    epoch: int = OPENS
    partitions: set[int] = field(default_factory=set)
    held: dict[int, set[int]] = field(default_factory=dict)
    """Offsets of the records that were delivered in the session and not acknowledged, by partition."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Acknowledgement of a range with one type."""

    index: int
    first: int
    last: int
    kind: int
    lease: Lease | None
    """Lease when the request is sent."""


class ShareMember(Client):
    """Member of the share group."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: Sequence[ClusterBroker],
        ledger: Ledger,
        history: ShareHistory,
        name: str,
    ) -> None:
        super().__init__(simulation, brokers, ledger, name)
        self._history = history
        self._lives = 0
        self._member_epoch = 0
        self._assigned: set[int] = set()
        self._sessions: dict[int, Session] = {}
        self._session_count = 0
        self._next_heartbeat = 0.0

    @property
    def _member_id(self) -> str:
        return f"{self.name}-{self._lives}"

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await self._live(end)
            await asyncio.sleep(self._random_source.exponential(REST_SECONDS))
        self.end_life()

    def end_life(self) -> None:
        """Close all connections without a word; the next life may have the same member id."""
        self.close()
        self._sessions.clear()
        self._coordinator = None
        self._leaders.clear()
        self._member_epoch, self._next_heartbeat = 0, 0.0
        self._assigned = set()
        self._lives += self._random_source.below(2)

    async def _live(self, end: float) -> None:
        steps = 1 + self._random_source.exponential(STEPS_MEAN)
        while self._simulation.now < end and steps > 0:
            steps -= 1
            try:
                await self.step(self._random_source.pick(STEPS))
            except OSError:
                self._coordinator = None
                self._leaders.clear()
            await asyncio.sleep(self._random_source.exponential(STEP_SECONDS))
        if self._random_source.happens(0.4):
            try:
                await self._leave()
            except OSError:
                self._coordinator = None
        self.end_life()

    async def step(self, name: str) -> None:
        """Send a heartbeat if it is due, then take one step. Raises OSError."""
        if self._simulation.now >= self._next_heartbeat:
            self._next_heartbeat = self._simulation.now + HEARTBEAT_SECONDS
            await self.heartbeat()
        await getattr(self, name)()

    # --- membership

    async def heartbeat(self) -> None:
        """Join the group, or stay in it. Raises OSError."""
        request = ShareGroupHeartbeatRequest(
            group_id=SHARE_GROUP,
            member_id=self._member_id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=None if self._member_epoch else [TOPIC],
        )
        answer = await self.ask(await self._coordinate_members(), request, 1)
        if answer.error_code == ErrorCode.NONE:
            assert answer.member_epoch >= self._member_epoch, (
                f"G2: {self._member_id} has epoch {answer.member_epoch} after {self._member_epoch}"
            )
            self._member_epoch = answer.member_epoch
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self._assigned = {index for topic in topics for index in topic.partitions}
        elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._member_epoch = 0
            self._assigned = set()
        else:
            self._coordinator = None

    async def _coordinate_members(self) -> int:
        if self._coordinator is None:
            self._coordinator = await self.find_coordinator(SHARE_GROUP, GROUP)
        return self._coordinator

    async def _leave(self) -> None:
        for session in list(self._sessions.values()):
            if session.epoch != OPENS:
                await self._acknowledge_in(session, closes=True)
        request = ShareGroupHeartbeatRequest(
            group_id=SHARE_GROUP, member_id=self._member_id, member_epoch=LEAVES, subscribed_topic_names=None
        )
        await self.ask(await self._coordinate_members(), request, 1)

    # --- steps

    async def late(self) -> None:
        """Acknowledge records when their locks have expired, or are about to. Raises OSError."""
        usable = [broker_id for broker_id, session in sorted(self._sessions.items()) if any(session.held.values())]
        if not usable:
            return
        broker_id = self._random_source.pick(usable)
        await asyncio.sleep(self._random_source.uniform(0.7, 1.7) * self._history.lock_seconds)
        session = await self._session(broker_id)
        if self._random_source.happens(0.5) and session.partitions:
            await self.fetch_from(broker_id, session.partitions)
        elif session.epoch != OPENS:
            await self._acknowledge_in(session)

    async def describe(self) -> None:
        """Request the start offsets. Raises OSError."""
        topic = DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=list(range(PARTITIONS)))
        group = DescribeShareGroupOffsetsRequestGroup(group_id=SHARE_GROUP, topics=[topic])
        invoked = self._history.now
        request = DescribeShareGroupOffsetsRequest(groups=[group])
        (answer,) = (await self.ask(await self._coordinate_members(), request, 1)).groups
        if answer.error_code != ErrorCode.NONE:
            self._coordinator = None
            return
        for each in answer.topics:
            for part in each.partitions:
                if part.error_code == ErrorCode.NONE and part.start_offset >= 0:
                    done, index = self._history.now, part.partition_index
                    self._history.note(
                        Start(partition=index, invoked=invoked, completed=done, offset=part.start_offset)
                    )

    async def acknowledge(self) -> None:
        """Acknowledge some records of a session, without a fetch. Raises OSError."""
        usable = [broker_id for broker_id, session in sorted(self._sessions.items()) if any(session.held.values())]
        if usable:
            broker_id = self._random_source.pick(usable)
            await self._acknowledge_in(self._sessions[broker_id])

    async def fetch(self) -> None:
        """Fetch from one of the leaders, and acknowledge earlier records in most cases. Raises OSError."""
        leaders = {index: await self.leader_of((self._history.topic_id, index)) for index in sorted(self._assigned)}
        wanted: dict[int, set[int]] = {}
        for index, leader in leaders.items():
            if leader is not None:
                wanted.setdefault(leader.broker_id, set()).add(index)
        if wanted:
            broker_id = self._random_source.pick(sorted(wanted))
            await self.fetch_from(broker_id, wanted[broker_id])

    # --- sessions

    async def _session(self, broker_id: int) -> Session:
        """Return the share session with a broker, a new one after a lost connection. Raises OSError."""
        wire = await self.connected(broker_id)
        self.keep(broker_id, wire)
        session = self._sessions.get(broker_id)
        if session is None or session.wire is not wire:
            self._session_count += 1
            session = self._sessions[broker_id] = Session(f"{self.name}/{self._session_count}", broker_id, wire)
        return session

    async def _ask_in(self, session: Session, request: Any, endings: Sequence[Ending]) -> Any:
        """Send a request of a session; return the response, or None if the session does not exist. Raises OSError."""
        invoked = self._history.now
        for ending in endings:
            held = session.held.get(ending.index, set())
            held.difference_update(range(ending.first, ending.last + 1))
        try:
            answer = await session.wire.ask(request, 2, seconds=GIVE_UP_SECONDS)
        except OSError:
            session.wire.close()
            self._wires.pop(session.broker_id, None)
            self._sessions.pop(session.broker_id, None)
            self._note_endings(session, invoked, endings, {}, INFO)
            if isinstance(request, ShareFetchRequest):
                for index in sorted(session.partitions):
                    self._history.note(Unanswered(partition=index, invoked=invoked))
            raise
        if answer.error_code != ErrorCode.NONE:
            self._sessions.pop(session.broker_id, None)
            self._note_endings(session, invoked, endings, {}, FAIL)
            return None
        self._history.note(Alive(invoked=invoked, completed=self._history.now, session=session.name))
        session.epoch += 1
        is_fetch = isinstance(request, ShareFetchRequest)
        codes = {
            part.partition_index: part.acknowledge_error_code if is_fetch else part.error_code
            for topic in answer.responses
            for part in topic.partitions
        }
        self._note_endings(session, invoked, endings, codes, OK)
        return answer

    def _note_endings(
        self, session: Session, invoked: float, endings: Iterable[Ending], codes: dict[int, int], outcome: str
    ) -> None:
        for ending in endings:
            code = codes.get(ending.index, ErrorCode.NONE)
            known = outcome if code == ErrorCode.NONE else FAIL if code in WITHOUT_EFFECT else INFO
            is_same = ending.lease == self._history.lease(session.broker_id, ending.index)
            event = Acknowledged(
                partition=ending.index,
                invoked=invoked,
                completed=float("inf") if known == INFO else self._history.now,
                session=session.name,
                first=ending.first,
                last=ending.last,
                kind=ending.kind,
                outcome=known,
                lease=ending.lease if is_same else None,
                leader_epoch=_epoch_of(ending.lease),
            )
            self._history.note(event)

    # --- requests of a session

    async def _acknowledge_in(self, session: Session, *, closes: bool = False) -> None:
        endings = self.endings_of(session)
        batches: dict[int, list[Any]] = {}
        for each in endings:
            item = ShareAcknowledgementBatch(
                first_offset=each.first, last_offset=each.last, acknowledge_types=[each.kind]
            )
            batches.setdefault(each.index, []).append(item)
        partitions = [AcknowledgePartition(partition_index=i, acknowledgement_batches=b) for i, b in batches.items()]
        request = ShareAcknowledgeRequest(
            group_id=SHARE_GROUP,
            member_id=self._member_id,
            share_session_epoch=CLOSES if closes else session.epoch,
            topics=[AcknowledgeTopic(topic_id=self._history.topic_id, partitions=partitions)] if partitions else [],
        )
        await self._ask_in(session, request, endings)
        if closes:
            self._sessions.pop(session.broker_id, None)

    async def fetch_from(self, broker_id: int, wanted: set[int]) -> None:
        """Fetch these partitions from a broker. Raises OSError."""
        session = await self._session(broker_id)
        endings = [] if session.epoch == OPENS else self.endings_of(session)
        request = self._fetch_request(session, wanted, endings)
        before = {index: self._history.lease(broker_id, index) for index in wanted}
        session.partitions = set(wanted)
        invoked = self._history.now
        answer = await self._ask_in(session, request, endings)
        for topic in answer.responses if answer is not None else ():
            for part in topic.partitions:
                if part.error_code != ErrorCode.NONE:
                    self._leaders.clear()
                self._take(session, part, invoked, before.get(part.partition_index))

    def _fetch_request(self, session: Session, wanted: set[int], endings: Sequence[Ending]) -> ShareFetchRequest:
        topic_id, random_source = self._history.topic_id, self._random_source
        partitions = {
            index: ShareFetchPartition(partition_index=index) for index in sorted(wanted - session.partitions)
        }
        for each in endings:
            item = ShareFetchAcknowledgementBatch(
                first_offset=each.first, last_offset=each.last, acknowledge_types=[each.kind]
            )
            part = partitions.setdefault(each.index, ShareFetchPartition(partition_index=each.index))
            part.acknowledgement_batches.append(item)
        # A partition with acknowledgements is added to the session; it must not be fetched if another broker leads it.
        forgotten = sorted((session.partitions | set(partitions)) - wanted)
        return ShareFetchRequest(
            group_id=SHARE_GROUP,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=random_source.pick((0, 100, 500)),
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=random_source.pick((1, 3, 10, 100)),
            batch_size=random_source.pick((1, 5, 100)),
            share_acquire_mode=random_source.below(2),
            topics=[ShareFetchTopic(topic_id=topic_id, partitions=list(partitions.values()))] if partitions else [],
            forgotten_topics_data=(
                [ShareFetchForgottenTopic(topic_id=topic_id, partitions=forgotten)] if forgotten else []
            ),
        )

    def _take(self, session: Session, part: Any, invoked: float, before: Lease | None) -> None:
        """Record the deliveries of a partition, and compare their records with those that were sent.

        `before` is the lease when the request was sent.
        """
        index, done = part.partition_index, self._history.now
        is_same = before == self._history.lease(session.broker_id, index)
        key = self._history.topic_id, index
        values = {record.offset: record.value for record in decode_all(bytes(part.records or b""))}
        for offset, value in values.items():
            self._ledger.compare(key, offset, value)
        for acquired in part.acquired_records:
            first, last, count = acquired.first_offset, acquired.last_offset, acquired.delivery_count
            offsets = set(range(first, last + 1))
            assert offsets <= values.keys(), (
                f"A4: {key}: {first} to {last} are acquired, of which {values.keys()} exist"
            )
            session.held.setdefault(index, set()).update(offsets)
            event = Delivery(
                partition=index,
                invoked=invoked,
                completed=done,
                session=session.name,
                first=first,
                last=last,
                count=count,
                lease=before if is_same else None,
                leader_epoch=_epoch_of(before),
            )
            self._history.note(event)

    # --- acknowledgements

    def endings_of(self, session: Session) -> list[Ending]:
        """Return random acknowledgements of some records that the session has."""
        found: list[Ending] = []
        for index in sorted(session.held):
            lease = self._history.lease(session.broker_id, index)
            for first, last in ranges_of(session.held[index]):
                found += self._endings(index, first, last, lease)
        return found

    def _endings(self, index: int, first: int, last: int, lease: Lease | None) -> Iterable[Ending]:
        while first <= last:
            end = min(last, first + self._random_source.below(4))
            if self._random_source.happens(0.7):
                yield Ending(index, first, end, self._random_source.pick(KINDS), lease)
            first = end + 1


def _epoch_of(lease: Lease | None) -> int | None:
    return None if lease is None else lease.leader_epoch


def ranges_of(offsets: set[int]) -> Iterable[tuple[int, int]]:
    """Yield ranges of consecutive offsets, with both ends included."""
    ordered = sorted(offsets)
    start = 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            yield ordered[start], ordered[place - 1]
            start = place
