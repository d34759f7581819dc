"""Service of ShareFetch and ShareAcknowledge requests that the handlers have accepted.

request -> session -> acknowledgements of records -+-> response
+-> fetch of records ------------+
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kwire.chunks import chunks, in_turns, turn
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.server.network.pending import after
from kwire.server.requests.context import RequestContext
from kwire.server.settings.requests import RequestSettings
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.answers import Outcomes, acknowledge_response, fetch_response
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.reading import ShareReading
from kwire.server.sharing.requested import Batches, TopicAccess, acknowledgements, requested_partitions
from kwire.server.sharing.share_fetch import Fetched, FetchLimits, ShareFetch
from kwire.server.sharing.share_partitions import SharePartitions
from kwire.server.sharing.share_sessions import CLOSES, OPENS, PartitionKey, SessionKey, ShareSession

WAIT_MS_MAX: Final = 2**31 - 1
FOUND_AT_ONCE: Final = 256
"""Share partitions that are looked up in one step."""


class ShareAcknowledgeService:
    """ShareAcknowledge request while it is served; also the acknowledgements of a ShareFetch request."""

    def __init__(self, request: ShareFetchRequest | ShareAcknowledgeRequest, context: RequestContext) -> None:
        assert request.group_id is not None, "the handler has checked the request"
        assert request.member_id is not None
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.access = TopicAccess(context)
        self._request = request
        self._context = context
        self._applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._not_applied = 1
        """Acknowledgements that are not applied yet, and 1 while more of them may begin."""

    @property
    def shares(self) -> SharePartitions:
        return self._context.services.share_partitions

    async def run(self, requested: Mapping[PartitionKey, Batches]) -> Outcomes:
        """Acknowledge records of all partitions, and return when that is stored."""
        outcomes: Outcomes = {}
        stored: dict[PartitionKey, asyncio.Future[None]] = {}
        for some in chunks(requested.items()):
            for key, batches in some:
                try:
                    self.access.name_of(key)  # raises for an unknown topic
                    outcomes[key] = None
                    checked = await in_turns(
                        acknowledgements(batches, self._context.version, is_renewal=self._request.is_renew_ack)
                    )
                    if checked:
                        stored[key] = self.shares.acknowledge(
                            self.group_id, self.member_id, key, checked, self._one_applied
                        )
                        self._not_applied += 1
                except KafkaError as error:
                    outcomes[key] = error.with_traceback(None)  # the traceback would keep this frame in a cycle
            await turn()
        self._one_applied()
        for key, future in stored.items():
            try:
                await asyncio.shield(future)
            except KafkaError as error:
                outcomes[key] = error.with_traceback(None)
        return outcomes

    def _one_applied(self) -> None:
        self._not_applied -= 1
        if not self._not_applied and not self._applied.done():
            self._applied.set_result(None)

    async def applied(self, acknowledging: asyncio.Future[Outcomes]) -> None:
        """Return when all records have their new states, which are perhaps not stored yet, or `run` has ended."""
        futures: list[asyncio.Future[Any]] = [self._applied, acknowledging]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)

    def close(self, session: ShareSession) -> None:
        """End a session after its last request; the records of the member are released.

        While the acknowledgements of that request were stored, the member may have opened another session, which stays.
        """
        if self.shares.sessions.get(session.key) is session:
            self.shares.member_left(self.group_id, self.member_id)


async def share_acknowledge(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    """Serve a ShareAcknowledge request."""
    service = ShareAcknowledgeService(request, context)
    epoch = request.share_session_epoch
    try:
        if epoch == OPENS:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = service.shares.sessions.find((service.group_id, service.member_id), epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    if epoch != CLOSES:
        session.next_epoch()
    requested = await in_turns(requested_partitions(request))
    outcomes = await service.run(requested)
    if epoch == CLOSES:
        service.close(session)
    lock_duration_ms = service.shares.settings_of(service.group_id).lock_duration_ms
    return await in_turns(acknowledge_response(outcomes, lock_duration_ms, context))


async def share_fetch(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    """Serve a ShareFetch request."""
    service = ShareFetchService(request, context)
    requested = await in_turns(requested_partitions(request))
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    acknowledged = {key: batches for key, batches in requested.items() if batches}
    try:
        session = service.begin(requested, forgotten, acknowledges=bool(acknowledged))
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(min(max(request.max_wait_ms, 0), WAIT_MS_MAX) / 1000.0)
        return ShareFetchResponse(error_code=error.code)
    epoch = session.epoch
    acknowledging = asyncio.ensure_future(service.run(acknowledged))
    try:
        if acknowledged:  # a record whose lock has expired is not acquired before its acknowledgement is rejected
            await service.applied(acknowledging)
        await service.fetch(session)
        outcomes = await asyncio.shield(acknowledging)
    except BaseException:
        service.release_output()
        raise
    if request.share_session_epoch == CLOSES:
        service.close(session)
    elif session.epoch != epoch:  # the same request was sent twice
        service.release_output()
        return ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    lock_duration_ms = service.shares.settings_of(service.group_id).lock_duration_ms
    service.release_output_when_written()
    return await in_turns(fetch_response(service.fetched, outcomes, lock_duration_ms, context))


class ShareFetchService(ShareAcknowledgeService):
    """ShareFetch request while it is served."""

    def __init__(self, request: ShareFetchRequest, context: RequestContext) -> None:
        super().__init__(request, context)
        self._fetch_request = request
        self.fetched: dict[PartitionKey, Fetched] = {}
        self._reserved_bytes = 0

    @property
    def _key(self) -> SessionKey:
        return self.group_id, self.member_id

    def begin(
        self, requested: Iterable[PartitionKey], forgotten: Iterable[PartitionKey], *, acknowledges: bool
    ) -> ShareSession:
        """Return the session of the request, after applying the request's changes. Raises KafkaError."""
        epoch = self._fetch_request.share_session_epoch
        if epoch == OPENS:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            return self.shares.open_session(self._key, list(requested), self._context.connection)
        session = self.shares.sessions.find(self._key, epoch)
        if epoch != CLOSES:
            self.shares.sessions.update(session, requested, forgotten)
            session.next_epoch()
        return session

    async def fetch(self, session: ShareSession) -> None:
        """Acquire records of the partitions of the session."""
        request, services = self._fetch_request, self._context.services
        if request.share_session_epoch == CLOSES or request.is_renew_ack:
            return
        leds = await self._find(list(session.partitions))
        bytes_max = min(request.max_bytes, services.settings.of(RequestSettings).fetch_bytes_max)
        if services.quotas.active:
            bytes_max = min(bytes_max, services.quotas.fetch_bytes_max(self._context))
        if not leds or request.max_records <= 0 or bytes_max <= 0:
            return

        def is_wanted() -> bool:
            return self.shares.sessions.get(self._key) is session

        fetch = ShareFetch(
            Asked(self.member_id, session.number, request.share_acquire_mode, request.batch_size, request.max_records),
            FetchLimits(
                bytes_min=min(request.min_bytes, bytes_max),
                bytes_max=min(bytes_max, services.output.response_bytes_max()),
                wait_ms=request.max_wait_ms,
            ),
            list(leds.values()),
            reading=ShareReading(services.cold_reads, is_wanted),
            output=services.output,
            is_wanted=is_wanted,
        )
        try:
            await fetch.run()
            is_first = request.share_session_epoch == OPENS
            await fetch.add_empty([led for key, led in leds.items() if is_first or key in session.to_name])
        finally:
            self._reserved_bytes = fetch.reserved_bytes
        for key, led in leds.items():
            if (found := fetch.fetched.get(led)) is not None:
                self.fetched[key] = found
                if found.records:
                    session.had_records(key)
        for key, found in self.fetched.items():
            session.named(key, has_error=found.error is not None)

    async def _find(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, LedSharePartition]:
        """Return the share partitions to fetch, and note the errors of the others."""
        leds: dict[PartitionKey, LedSharePartition] = {}
        for number, key in enumerate(keys, 1):
            try:
                leds[key] = self.shares.find(self.group_id, self.access.name_of(key), key)
            except KafkaError as error:
                self.fetched[key] = Fetched(b"", [], error.with_traceback(None))
            if number % FOUND_AT_ONCE == 0:
                await turn()
        return leds

    def release_output(self) -> None:
        """Stop counting the records as output: they are not sent."""
        self._context.services.output.release_reserved(self._reserved_bytes)
        self._reserved_bytes = 0

    def release_output_when_written(self) -> None:
        """Count the records as output until the connection has written the response."""
        task = asyncio.current_task()
        assert task is not None
        # After the connection's own callback, which writes the response or starts to.
        task.add_done_callback(lambda _: after(self._context.connection.work, self.release_output))
