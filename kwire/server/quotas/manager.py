"""Quotas of all clients: applies committed quotas, measures requests, and returns throttle times.

    producer_byte_rate:         bytes of Produce requests
    consumer_byte_rate:         bytes of Fetch responses; a client above it gets an empty response. Bytes of records in
                                ShareFetch responses; a client above it waits afterwards
    request_percentage:         time that requests use of the event loop, in percent of one thread
    controller_mutation_rate:   partitions created and deleted
    connection_creation_rate:   connections from an address; above it, a connection waits and is closed

The time of a request is counted from begin() to throttle_ms(). A request that waits in between calls spent_ms() when it
starts to wait, and passes the result to begin() when it continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.messages.share_fetch import ShareFetchResponse
from kwire.seams import Clock
from kwire.server.network.outgoing.addresses import AddressBook
from kwire.server.quotas.limits import AddressLimits, Client, QuotaLimits, quotas_of_hosts
from kwire.server.quotas.measures import Measures, Rates
from kwire.server.quotas.mutations import MutationQuota, Mutations, NoMutationQuota
from kwire.server.quotas.rate import SampledRate
from kwire.server.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from kwire.server.requests.services import NodeContext

UNLIMITED_BYTES = 2**31 - 1
UNLIMITED = NoMutationQuota()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """Windows in which usage is sampled."""

    samples_max: int = setting("quota.window.num", default=11)
    window_ms: int = setting("quota.window.size.seconds", default=1000, scale=1000)
    controller_samples_max: int = setting("controller.quota.window.num", default=11)
    controller_window_ms: int = setting("controller.quota.window.size.seconds", default=1000, scale=1000)


class ClientQuotaManager:
    """Quotas and measures of all clients. The state changes only on the event loop."""

    def __init__(self, *, clock: Clock, config: QuotaConfig) -> None:
        self.active = False
        self._clock = clock
        self._config = config
        self._began_ms = 0.0
        self._produce = Rates(self._new_rate)
        self._fetch = Rates(self._new_rate)
        self._request = Rates(self._new_rate)
        self._mutation = Measures(self._new_bucket)
        self._connections = Rates(self._new_rate)
        self._addresses = AddressBook()
        self._hosts: Mapping[str, Mapping[str, float]] = {}
        self._quotas: ClientQuotas = {}

    def _new_rate(self) -> SampledRate:
        return SampledRate(samples_max=self._config.samples_max, window_ms=self._config.window_ms)

    def _new_bucket(self) -> TokenBucket:
        return TokenBucket(
            samples_max=self._config.controller_samples_max,
            window_ms=self._config.controller_window_ms,
            now_ms=self._now_ms(),
        )

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_ms())

    # --- changes of the metadata

    def apply(self, delta: MetadataDelta) -> None:
        """Apply committed quotas."""
        if delta.has_quota_changes:
            self.load(delta.after)

    def load(self, image: MetadataImage) -> None:
        """Apply the quotas of an image."""
        quotas = image.client_quotas
        self._produce.set_limits(QuotaLimits(quotas, PRODUCER_BYTE_RATE))
        self._fetch.set_limits(QuotaLimits(quotas, CONSUMER_BYTE_RATE))
        self._request.set_limits(QuotaLimits(quotas, REQUEST_PERCENTAGE))
        self._mutation.set_limits(QuotaLimits(quotas, CONTROLLER_MUTATION_RATE))
        hosts = quotas_of_hosts(quotas)
        if hosts != self._hosts:
            self._hosts = hosts
            self._addresses.resolve(hosts, lambda: self._limit_connections(self._quotas))
        self._limit_connections(quotas)
        kinds: tuple[Measures[Any], ...] = (self._produce, self._fetch, self._request, self._mutation)
        self.active = any(kind.limits for kind in kinds)

    def _limit_connections(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._connections.set_limits(AddressLimits(quotas, CONNECTION_CREATION_RATE, self._addresses.find))

    # --- requests

    def begin(self, spent_ms: float = 0.0) -> None:
        """Start to count the time of a request; `spent_ms` is its time before a wait."""
        self._began_ms = self._clock.monotonic_ms() - spent_ms

    def spent_ms(self) -> float:
        """Return the time that the current request has used so far."""
        return self._clock.monotonic_ms() - self._began_ms

    def throttle_ms(self, context: NodeContext, response: Any, request_bytes: int) -> int:
        """Count a request before its response (None: without a response); return how long its client must wait.

        The longest of several waits counts, and is written into the response.
        """
        key = context.api_key
        if key is ApiKey.FETCH and not response.error_code:
            throttle_ms: int = response.throttle_time_ms  # counted by fetch_throttle_ms
            return throttle_ms
        login = context.connection.authentication
        if login is not None and not login.user:
            return 0  # as in Kafka: clients that cannot log in would slow down the logins of others
        client = _client(context)
        throttle_ms = 0 if response is None else self._request_throttle_ms(client)
        if key is ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, self._produce.record(client, request_bytes, self._now_ms()))
        elif key is ApiKey.SHARE_FETCH:  # its records are sent also above the quota: they are acquired
            throttle_ms = max(throttle_ms, self._fetch.record(client, _records_bytes(response), self._now_ms()))
        else:
            throttle_ms = max(throttle_ms, getattr(response, "throttle_time_ms", 0))
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return throttle_ms

    def count_time(self, context: NodeContext) -> None:
        """Count the time since `begin` of a request that is answered later."""
        self._request.record(_client(context), self._spent_percent(), self._now_ms())

    def _spent_percent(self) -> float:
        """Return the used time as a percentage of one second."""
        return self.spent_ms() / 1000.0 * 100.0

    def _request_throttle_ms(self, client: Client) -> int:
        throttle_ms = self._request.record(client, self._spent_percent(), self._now_ms())
        return min(throttle_ms, self._config.window_ms)

    # --- fetching

    def fetch_bytes_max(self, context: NodeContext) -> int:
        """Return the largest response within the quota: a larger one would exceed it even after a long pause."""
        found = self._fetch.limits.find(*_client(context))
        if found is None:
            return UNLIMITED_BYTES
        return int(min(found[1] * (self._config.samples_max - 1) * self._config.window_ms / 1000.0, UNLIMITED_BYTES))

    def limits_fetch(self, context: NodeContext) -> bool:
        """Return True if the client's fetched bytes count towards a quota."""
        return self._fetch.find(_client(context)) is not None

    def fetch_throttle_ms(self, context: NodeContext, size: int) -> int:
        """Count a fetch before its response. Above 0, the response must be empty, and the bytes are not counted."""
        client, now_ms = _client(context), self._now_ms()
        request_ms = self._request_throttle_ms(client)
        if self._fetch.find(client) is None:
            return request_ms
        throttle_ms = max(request_ms, self._fetch.record(client, size, now_ms))
        if throttle_ms:
            self._fetch.take_back(client, size, now_ms)
        return throttle_ms

    # --- connections

    def connection_rejected_ms(self, host: str) -> int:
        """Count a new connection of an address. Above 0, it is closed after this time, and is not counted."""
        if not self._connections.limits:
            return 0
        client, now_ms = (host, ""), self._now_ms()
        throttle_ms = self._connections.record(client, 1.0, now_ms)
        if throttle_ms:
            self._connections.take_back(client, 1.0, now_ms)
        return min(throttle_ms, self._config.window_ms)

    # --- changing the cluster

    def mutations(self, context: NodeContext, *, strict_since: int) -> Mutations:
        """Return the mutation quota of a request. It is strict from a request version on."""
        found = self._mutation.find(_client(context))
        if found is None:
            return UNLIMITED
        bucket, limit = found
        return MutationQuota(bucket, limit, self._clock, is_strict=context.version >= strict_since)


def _client(context: NodeContext) -> Client:
    return context.connection.principal.partition(":")[2], context.client_id or ""


def _records_bytes(response: ShareFetchResponse) -> int:
    return sum(len(each.records or b"") for topic in response.responses for each in topic.partitions)
