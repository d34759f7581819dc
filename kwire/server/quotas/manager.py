"""The quotas of all clients: follows the metadata, measures requests, and says how long clients must wait.

    producer_byte_rate          bytes of Produce requests
    consumer_byte_rate          bytes of Fetch answers; who is over it gets an empty answer instead
    request_percentage          time that requests take of the event loop, in percent of one thread
    controller_mutation_rate    partitions created and deleted
    connection_creation_rate    connections made from an address; who is over it is let wait and sent away

The time of a request is counted from begin() to throttle_ms(). A request that waits in between calls spent_ms() when it
starts to wait and hands the number to begin() when it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kwire.cluster.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)
from kwire.cluster.image import MetadataImage
from kwire.protocol.api_keys import ApiKey
from kwire.seams import Clock
from kwire.server.network.addresses import AddressBook
from kwire.server.quotas.limits import AddressLimits, Client, QuotaLimits, quotas_of_hosts
from kwire.server.quotas.measures import Measures, Rates
from kwire.server.quotas.mutations import MutationQuota, Mutations, NoMutationQuota
from kwire.server.quotas.rate import SampledRate
from kwire.server.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from kwire.server.context import RequestContext

UNLIMITED_BYTES = 2**31 - 1
UNLIMITED = NoMutationQuota()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """How usage is sampled. Names are those of the broker's settings."""

    samples_max: int = 11
    """quota.window.num."""
    window_ms: int = 1000
    """quota.window.size.seconds."""
    controller_samples_max: int = 11
    """controller.quota.window.num."""
    controller_window_ms: int = 1000
    """controller.quota.window.size.seconds."""


def quota_config(settings: Mapping[str, Any]) -> QuotaConfig:
    """How the settings of a node want usage to be sampled."""
    return QuotaConfig(
        samples_max=settings["quota.window.num"],
        window_ms=settings["quota.window.size.seconds"] * 1000,
        controller_samples_max=settings["controller.quota.window.num"],
        controller_window_ms=settings["controller.quota.window.size.seconds"] * 1000,
    )


class ClientQuotaManager:
    """State is changed on the event loop only."""

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

    # --- following the metadata

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take over committed quotas; for MetadataLog.watch."""
        if old.client_quotas is not new.client_quotas:
            self.load(new)

    def load(self, image: MetadataImage) -> None:
        """Take over the quotas of an image."""
        quotas = image.client_quotas
        self._produce.set_limits(QuotaLimits(quotas, PRODUCER_BYTE_RATE))
        self._fetch.set_limits(QuotaLimits(quotas, CONSUMER_BYTE_RATE))
        self._request.set_limits(QuotaLimits(quotas, REQUEST_PERCENTAGE))
        self._mutation.set_limits(QuotaLimits(quotas, CONTROLLER_MUTATION_RATE))
        hosts = quotas_of_hosts(quotas)
        if hosts != self._hosts:
            self._hosts = hosts
            self._addresses.look_up(hosts, lambda: self._limit_connections(self._quotas))
        self._limit_connections(quotas)
        kinds: tuple[Measures[Any], ...] = (self._produce, self._fetch, self._request, self._mutation)
        self.active = any(kind.limits for kind in kinds)

    def _limit_connections(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._connections.set_limits(AddressLimits(quotas, CONNECTION_CREATION_RATE, self._addresses.find))

    # --- requests

    def begin(self, spent_ms: float = 0.0) -> None:
        """A request is served from now on, after what it took before it waited."""
        self._began_ms = self._clock.monotonic_ms() - spent_ms

    def spent_ms(self) -> float:
        """What the request that is being served has taken so far."""
        return self._clock.monotonic_ms() - self._began_ms

    def throttle_ms(self, context: RequestContext, response: Any, request_bytes: int) -> int:
        """Count a request that is about to be answered (None: without an answer); how long its client must wait.

        The longest of several waits counts; it is written into the response.
        """
        key = context.api_key
        if key is ApiKey.FETCH and not response.error_code:
            throttle_ms: int = response.throttle_time_ms  # counted by fetch_throttle_ms
            return throttle_ms
        client = _client(context)
        throttle_ms = 0 if response is None else self._request_throttle_ms(client)
        if key is ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, self._produce.record(client, request_bytes, self._now_ms()))
        else:
            throttle_ms = max(throttle_ms, getattr(response, "throttle_time_ms", 0))
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return throttle_ms

    def count_time(self, context: RequestContext) -> None:
        """Count the time since `begin` of a request that is answered later."""
        self._request.record(_client(context), self._spent_percent(), self._now_ms())

    def _spent_percent(self) -> float:
        """What a whole second counts as 100 of."""
        return self.spent_ms() / 1000.0 * 100.0

    def _request_throttle_ms(self, client: Client) -> int:
        throttle_ms = self._request.record(client, self._spent_percent(), self._now_ms())
        return min(throttle_ms, self._config.window_ms)

    # --- fetching

    def fetch_bytes_max(self, context: RequestContext) -> int:
        """More than this in one answer would be over the quota even after a silence: nobody could ever fetch it."""
        found = self._fetch.limits.find(*_client(context))
        if found is None:
            return UNLIMITED_BYTES
        return int(min(found[1] * (self._config.samples_max - 1) * self._config.window_ms / 1000.0, UNLIMITED_BYTES))

    def limits_fetch(self, context: RequestContext) -> bool:
        """Whether the bytes count that the client fetches."""
        return self._fetch.find(_client(context)) is not None

    def fetch_throttle_ms(self, context: RequestContext, size: int) -> int:
        """Count a fetch that is about to be answered. Above 0: answer nothing, and do not count its bytes."""
        client, now_ms = _client(context), self._now_ms()
        request_ms = self._request_throttle_ms(client)
        if self._fetch.find(client) is None:
            return request_ms
        throttle_ms = max(request_ms, self._fetch.record(client, size, now_ms))
        if throttle_ms:
            self._fetch.take_back(client, size, now_ms)
        return throttle_ms

    # --- connections

    def connection_refused_ms(self, host: str) -> int:
        """Count a connection that an address makes. Above 0: it is closed after so long, and did not count."""
        if not self._connections.limits:
            return 0
        client, now_ms = (host, ""), self._now_ms()
        throttle_ms = self._connections.record(client, 1.0, now_ms)
        if throttle_ms:
            self._connections.take_back(client, 1.0, now_ms)
        return min(throttle_ms, self._config.window_ms)

    # --- changing the cluster

    def mutations(self, context: RequestContext, *, strict_since: int) -> Mutations:
        """What the request may change. Strict from a version on."""
        found = self._mutation.find(_client(context))
        if found is None:
            return UNLIMITED
        bucket, limit = found
        return MutationQuota(bucket, limit, self._clock, is_strict=context.version >= strict_since)


def _client(context: RequestContext) -> Client:
    return context.connection.principal.partition(":")[2], context.client_id or ""
