"""Client telemetry: the subscriptions by which clients push their own metrics (KIP-714).

Subscriptions are configurations of the CLIENT_METRICS resource type: metric prefixes, an interval, and patterns that
select clients. kwire has no receiver: pushed metrics are checked and dropped, as in Kafka without a receiver plug-in,
and ApiVersions does not advertise the two APIs.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from kwire.chunks import Pieces
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.group_configs import MATCH_MAX
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.patterns import Matcher, Pattern, PatternRejectedError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import Clock, RandomSource

INTERVAL_MS_DEFAULT = 300_000
ALL_METRICS = "*"
CLIENTS_MAX = 16_384
"""Client instances that are kept, as in Kafka; the least recently seen is removed first."""
PATTERNS_MAX = 64
"""Patterns that are kept compiled; the oldest one is removed first."""
WORK_OF_SUBSCRIPTION = 20
"""Work units of a subscription, in addition to its patterns."""
COMPRESSION_TYPE_MAX = 4
FORGET_MS_MIN = 60_000
FORGET_INTERVALS = 3
"""An instance is removed after this many silent intervals, but not before FORGET_MS_MIN, as in Kafka."""
ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors after which a client may request its subscription at once."""
RESERVED = (ZERO_UUID, UUID(int=1))


@dataclass(slots=True, kw_only=True, frozen=True)
class Subscription:
    """Subscription: one configuration of the CLIENT_METRICS type."""

    match: str
    metrics: tuple[str, ...]
    interval_ms: int


class ClientSubscription(NamedTuple):
    """Subscription of one client in a response. It is not kept: there may be many metrics and many clients."""

    subscription_id: int
    metrics: list[str]
    interval_ms: int


@dataclass(slots=True, kw_only=True)
class ClientInstance:
    """State of one client instance since its last request."""

    subscription_id: int
    subscriptions_version: int
    """Version of the subscriptions that subscription_id was made from.

    As in Kafka, any change makes the client a new one.
    """
    interval_ms: int
    last_seen_ms: float
    last_get_ms: float = float("-inf")
    last_push_ms: float = float("-inf")
    last_error: ErrorCode = ErrorCode.NONE
    """Error of the last push; NONE if there was no push since the client received its subscription."""
    is_terminating: bool = False

    def is_forgotten(self, now_ms: float) -> bool:
        return now_ms - self.last_seen_ms >= max(FORGET_MS_MIN, FORGET_INTERVALS * self.interval_ms)

    def can_get(self, now_ms: float) -> bool:
        """True if the client may request its subscription now: its interval is over or the last push said so.

        Records it.
        """
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in ASK_AGAIN:
            return False
        self.last_error = ErrorCode.NONE
        return True

    def can_push(self, now_ms: float) -> bool:
        """True if the client may push now.

        The first push after a subscription may come early: clients spread their pushes.
        """
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class Subscriptions:
    """All subscriptions of the current metadata image, with a version that counts changes."""

    def __init__(self) -> None:
        self.version = 0
        self.all: list[Subscription] = []
        self._found_in: object = None
        self._configs: list[Mapping[str, str]] = []

    def apply(self, image: MetadataImage) -> None:
        """Update the subscriptions from a metadata image."""
        if self._found_in is image.configs:
            return
        self._found_in = image.configs
        found = [configs for (kind, _), configs in image.configs.items() if kind == ConfigResourceType.CLIENT_METRICS]
        if len(found) == len(self._configs) and all(map(operator.is_, found, self._configs)):
            return  # no subscription was set since: each set makes a new object, also with equal values
        self._configs = found
        self.all = [_subscription(configs) for configs in found]
        self.version += 1


class ClientTelemetry:
    """Client instances of this broker. `attributes` are the client properties that subscriptions match."""

    def __init__(self, *, clock: Clock, random_source: RandomSource, bytes_max: int) -> None:
        self._clock = clock
        self._random_source = random_source
        self.bytes_max = bytes_max
        """The setting telemetry.max.bytes."""
        self._subscriptions = Subscriptions()
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()

    def subscribe(
        self, instance_id: UUID, attributes: Mapping[str, str], image: MetadataImage
    ) -> Pieces[tuple[UUID, ClientSubscription]]:
        """Return the instance id, newly assigned for a zero id, and its subscription.

        Raises KafkaError if the client requests too often.
        """
        if instance_id == ZERO_UUID:
            instance_id = self._random_source.uuid()
        instance = yield from self._instance(instance_id, attributes, image)
        if not instance.can_get(self._clock.monotonic_ms()):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        metrics, instance.interval_ms = yield from _chosen(attributes, self._subscriptions.all)
        instance.subscription_id = _subscription_id(instance_id, metrics, instance.interval_ms)
        return instance_id, ClientSubscription(instance.subscription_id, metrics, instance.interval_ms)

    def push(
        self,
        instance_id: UUID,
        attributes: Mapping[str, str],
        image: MetadataImage,
        *,
        subscription_id: int,
        is_terminating: bool,
        compression_type: int,
        size: int,
    ) -> Pieces[None]:
        """Check a push. Raises KafkaError if it is rejected."""
        if instance_id in RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = yield from self._instance(instance_id, attributes, image)
        rejection = self._rejection(instance, subscription_id, compression_type, size, is_terminating=is_terminating)
        instance.is_terminating = is_terminating
        instance.last_error = rejection
        if rejection:
            raise KafkaError(rejection)

    def _rejection(
        self, instance: ClientInstance, subscription_id: int, compression_type: int, size: int, *, is_terminating: bool
    ) -> ErrorCode:
        """Return the error code of a rejected push, or NONE."""
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.can_push(self._clock.monotonic_ms()) and not is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= compression_type <= COMPRESSION_TYPE_MAX:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size > self.bytes_max else ErrorCode.NONE

    def _instance(
        self, instance_id: UUID, attributes: Mapping[str, str], image: MetadataImage
    ) -> Pieces[ClientInstance]:
        self._subscriptions.apply(image)
        version = self._subscriptions.version
        known = self._known(instance_id, version)
        if known is not None:
            return known
        metrics, interval_ms = yield from _chosen(attributes, self._subscriptions.all)
        known = self._known(instance_id, version)  # another request of the client may have added it meanwhile
        if known is not None:
            return known
        instance = self._instances[instance_id] = ClientInstance(
            subscription_id=_subscription_id(instance_id, metrics, interval_ms),
            subscriptions_version=version,
            interval_ms=interval_ms,
            last_seen_ms=self._clock.monotonic_ms(),
        )
        self._instances.move_to_end(instance_id)
        if len(self._instances) > CLIENTS_MAX:
            self._instances.popitem(last=False)
        return instance

    def _known(self, instance_id: UUID, version: int) -> ClientInstance | None:
        now_ms = self._clock.monotonic_ms()
        known = self._instances.get(instance_id)
        if known is None or known.is_forgotten(now_ms) or known.subscriptions_version != version:
            return None
        known.last_seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        return known


_PATTERNS: dict[str, Pattern | None] = {}


def _subscription(configs: Mapping[str, str]) -> Subscription:
    return Subscription(
        match=configs.get("match", ""),
        metrics=tuple(_items(configs.get("metrics", ""))),
        interval_ms=int(configs.get("interval.ms", INTERVAL_MS_DEFAULT)),
    )


def _chosen(attributes: Mapping[str, str], subscriptions: Iterable[Subscription]) -> Pieces[tuple[list[str], int]]:
    """Return the metrics and the interval of all subscriptions that match the client."""
    metrics: dict[str, None] = {}
    interval_ms = INTERVAL_MS_DEFAULT
    matcher = Matcher()
    for subscription in subscriptions:
        yield from matcher.spend(WORK_OF_SUBSCRIPTION)
        if (yield from _chooses(subscription.match, attributes, matcher)):
            metrics.update(dict.fromkeys(subscription.metrics))
            interval_ms = min(interval_ms, subscription.interval_ms)
    return ([ALL_METRICS] if ALL_METRICS in metrics else list(metrics)), interval_ms


def _chooses(match: str, attributes: Mapping[str, str], matcher: Matcher) -> Pieces[bool]:
    if len(match) > MATCH_MAX:
        return False
    for item in _items(match):
        name, _, text = item.partition("=")
        pattern = yield from _pattern(text.strip(), matcher)
        if pattern is None or not (yield from matcher.matches(pattern, attributes.get(name.strip(), ""))):
            return False
    return True


def _pattern(text: str, matcher: Matcher) -> Pieces[Pattern | None]:
    """Return the compiled pattern; None if it is rejected: it matches no client."""
    if text in _PATTERNS:
        return _PATTERNS[text]
    try:
        pattern = yield from matcher.compile(text)
    except PatternRejectedError:
        pattern = None
    _PATTERNS[text] = pattern
    if len(_PATTERNS) > PATTERNS_MAX:
        del _PATTERNS[next(iter(_PATTERNS))]
    return pattern


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _subscription_id(instance_id: UUID, metrics: list[str], interval_ms: int) -> int:
    """Return an int32 that depends on the subscription and on the client instance."""
    checksum: int = crc32c(f"{sorted(metrics)}{interval_ms}".encode())
    mixed = checksum ^ crc32c(instance_id.bytes)
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
