"""Share partitions and share sessions of a broker; created once by each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol

from kwire.chunks import chunks, turn
from kwire.cluster.configs.group_configs import GroupConfigs
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.partitions.partitions import Partitions
from kwire.log.large_batches import LargeBatches
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.repeated_messages import RepeatedMessages
from kwire.seams import Clock
from kwire.server.sharing.chosen_starts import ChosenStarts
from kwire.server.sharing.config import ShareGroupSettings, ShareSessionSettings
from kwire.server.sharing.in_flight_limit import InFlightLimit
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.persister import Persister
from kwire.server.sharing.share_sessions import PartitionKey, SessionKey, ShareSession, ShareSessions
from kwire.server.sharing.states import Acknowledgement

IDLE_CHECK_SECONDS: Final = 1.0
"""Time until share partitions of a group without sessions are checked again: their last changes are being stored."""


class SessionConnection(Protocol):
    """Connection of a member."""

    when_lost: list[Callable[[], None]] | None
    """Callbacks for the end of the connection; None once it has ended."""


class SharePartitions:
    """Share partitions whose partitions this broker leads, by group and partition, and the sessions of the members."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        persister: Persister,
        configs: GroupConfigs,
        settings: CurrentSettings,
        clock: Clock,
        large_batches: LargeBatches,
        messages: RepeatedMessages,
    ) -> None:
        self.persister = persister
        """Store of the state; used by share partitions that are loaded from now on."""
        self.sessions = ShareSessions(lambda: settings.of(ShareSessionSettings).sessions_max)
        self._partitions = partitions
        self._configs = configs
        self._clock = clock
        self._large_batches = large_batches
        self._messages = messages
        self._groups: dict[str, dict[PartitionKey, LedSharePartition]] = {}
        self._connections: dict[SessionConnection, dict[SessionKey, None]] = {}
        """Sessions that were opened on each connection."""
        self._session_connections: dict[SessionKey, SessionConnection] = {}
        self._failed: dict[tuple[str, PartitionKey], LedSharePartition] = {}
        """Share partitions that have failed and still have a write in progress."""
        self._chosen_starts = ChosenStarts(clock)
        self._in_flight_limit = InFlightLimit()
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop with the broker."""
        for group in list(self._groups.values()):
            for led in list(group.values()):
                led.stop()
        for task in self._tasks:
            task.cancel()

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        return self._configs.of(group_id, ShareGroupSettings)

    # --- share partitions

    def get(self, group_id: str, key: PartitionKey) -> LedSharePartition | None:
        group = self._groups.get(group_id)
        return None if group is None else group.get(key)

    def find(self, group_id: str, topic: str, key: PartitionKey) -> LedSharePartition:
        """Return a share partition; it may still be loading. Raises KafkaError if this broker does not lead it."""
        led = self.get(group_id, key)
        if led is not None:
            return led
        partition = self._partitions.find(topic, key[1])
        if partition.topic_id != key[0]:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        led = LedSharePartition(
            group_id,
            partition,
            persister=self.persister,
            settings=partial(self._configs.of, group_id, ShareGroupSettings),
            clock=self._clock,
            large_batches=self._large_batches,
            messages=self._messages,
            in_flight_limit=self._in_flight_limit,
            dropped=self._drop,
            predecessor=self._failed.pop((group_id, key), None),
            chosen_start=self._chosen_starts.take(group_id, key),
        )
        self._groups.setdefault(group_id, {})[key] = led
        return led

    def _drop(self, led: LedSharePartition) -> None:
        group = self._groups.get(led.group_id, {})
        key = led.partition.topic_id, led.partition.index
        if group.get(key) is not led:
            return
        del group[key]
        if not group:
            del self._groups[led.group_id]
        if led.chosen_start is not None:
            self._chosen_starts.remember(led.group_id, key, led.chosen_start)
        if not led.is_idle:
            self._failed[led.group_id, key] = led
            self._keep(self._forget(led, key))

    def end_all(self) -> None:
        """End all sessions, and drop all share partitions: the cluster has no share groups any more."""
        self._keep(self._end_all())

    async def _end_all(self) -> None:
        for keys in chunks(self.sessions.keys()):
            for key in keys:
                self.sessions.remove(key)
                self._forget_connection(key)
            await turn()
        for group in list(self._groups.values()):
            for leds in chunks(list(group.values())):
                for led in leds:
                    led.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))  # it ends the wait of fetches
                await turn()

    async def _forget(self, led: LedSharePartition, key: PartitionKey) -> None:
        """Drop the last reference to a failed share partition when its last write has ended."""
        await led.settled()
        if self._failed.get((led.group_id, key)) is led:
            del self._failed[led.group_id, key]

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def __len__(self) -> int:
        return sum(len(group) for group in self._groups.values())

    def acknowledge(
        self,
        group_id: str,
        member: str,
        key: PartitionKey,
        acknowledgements: Sequence[Acknowledgement],
        applied: Callable[[], None],
    ) -> asyncio.Future[None]:
        """Acknowledge records of one partition. Raises KafkaError, at once or in the future.

        `applied` is called before it is stored, when the records have their new state; not after a KafkaError at once.
        """
        led = self.get(group_id, key)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return led.acknowledge(member, acknowledgements, applied=applied)

    # --- sessions

    def open_session(
        self, key: SessionKey, partitions: Sequence[PartitionKey], connection: SessionConnection
    ) -> ShareSession:
        """Open a session that ends with its connection. Raises KafkaError.

        A request that is being served when its connection is lost opens no session: nothing would end it.
        """
        if connection.when_lost is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        session = self.sessions.open(key, partitions)
        self._forget_connection(key)
        if connection not in self._connections:
            connection.when_lost.append(partial(self._connection_lost, connection))
        self._connections.setdefault(connection, {})[key] = None
        self._session_connections[key] = connection
        return session

    def _forget_connection(self, key: SessionKey) -> None:
        connection = self._session_connections.pop(key, None)
        if connection is not None:
            del self._connections[connection][key]

    def _connection_lost(self, connection: SessionConnection) -> None:
        for key in list(self._connections[connection]):
            self.member_left(*key)
        del self._connections[connection]

    def member_left(self, group_id: str, member: str) -> None:
        """End the session of a member, and release its records."""
        session = self.sessions.remove((group_id, member))
        self._forget_connection((group_id, member))
        if session is not None:
            self._keep(self._release(session))

    async def _release(self, session: ShareSession) -> None:
        """Release the records of a session that has ended, while the member may have opened another one."""
        group_id, member = session.key
        for some in chunks(list(session.partitions)):
            leds = [led for key in some if (led := self.get(group_id, key)) is not None and led.state is not None]
            releases = [(led, led.release(member, session.number)) for led in leds]
            for led, release in releases:
                try:
                    await release
                except KafkaError as error:
                    subject = "release", group_id
                    text = "%r: cannot release the records of a member that left, until their locks expire: %s"
                    self._messages.log(logging.WARNING, subject, text, led, error)
            await turn()
        await self._drop_idle(group_id)

    async def _drop_idle(self, group_id: str) -> None:
        """Drop the share partitions of a group without sessions: they are loaded again when a member fetches."""
        while group_id in self._groups:
            for some in chunks(list(self._groups[group_id].values())):
                if self.sessions.has_group(group_id):
                    return
                for led in some:
                    if led.is_idle:
                        led.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
                await turn()
            if group_id in self._groups:
                await asyncio.sleep(IDLE_CHECK_SECONDS)
