"""Which clients send their own metrics, and how often (KIP-714).

Subscriptions are configurations of the CLIENT_METRICS resource type: metric prefixes, an interval, and patterns that
choose clients. There is no receiver: what is pushed is checked and dropped, as on a Kafka without a receiver plug-in,
and ApiVersions does not offer the two APIs.
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
from kwire.cluster.config_keys import ConfigResourceType
from kwire.cluster.group_configs import MATCH_MAX
from kwire.cluster.image import MetadataImage
from kwire.cluster.patterns import Matcher, Pattern, PatternRefusedError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import Chance, Clock

INTERVAL_MS_DEFAULT = 300_000
ALL_METRICS = "*"
CLIENTS_MAX = 16_384
"""Instances that are remembered, as in Kafka; the least recently seen is forgotten first."""
PATTERNS_MAX = 64
"""Patterns that are kept compiled; the oldest one is dropped first."""
WORK_OF_SUBSCRIPTION = 20
"""Work of a subscription beside its patterns."""
COMPRESSION_TYPE_MAX = 4
FORGET_MS_MIN = 60_000
FORGET_INTERVALS = 3
"""A client that is silent for so many of its intervals, but not less than that time, is forgotten, as in Kafka."""
ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client may ask for its subscription at once."""
RESERVED = (ZERO_UUID, UUID(int=1))


@dataclass(slots=True, kw_only=True, frozen=True)
class Subscription:
    """One configuration of the CLIENT_METRICS type."""

    match: str
    metrics: tuple[str, ...]
    interval_ms: int


class Told(NamedTuple):
    """What a client is told. Nobody keeps it: the metrics may be many, and clients too."""

    subscription_id: int
    metrics: list[str]
    interval_ms: int


@dataclass(slots=True, kw_only=True)
class ClientInstance:
    """One client as the broker last told it."""

    subscription_id: int
    subscriptions_version: int
    """Of what this follows from; with any change of it the client counts as new, as in Kafka."""
    interval_ms: int
    last_seen_ms: float
    last_get_ms: float = float("-inf")
    last_push_ms: float = float("-inf")
    last_error: ErrorCode = ErrorCode.NONE
    """Of the last push, or none since it was told its subscription."""
    is_terminating: bool = False

    def is_forgotten(self, now_ms: float) -> bool:
        return now_ms - self.last_seen_ms >= max(FORGET_MS_MIN, FORGET_INTERVALS * self.interval_ms)

    def may_get(self, now_ms: float) -> bool:
        """Whether the client asks no more often than it should, or was told to; remembers that it did."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in ASK_AGAIN:
            return False
        self.last_error = ErrorCode.NONE
        return True

    def may_push(self, now_ms: float) -> bool:
        """The first push after a subscription may come early: clients spread theirs."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class Subscriptions:
    """All subscriptions, of one image at a time, and how often they changed."""

    def __init__(self) -> None:
        self.version = 0
        self.all: list[Subscription] = []
        self._found_in: object = None
        self._configs: list[Mapping[str, str]] = []

    def follow(self, image: MetadataImage) -> None:
        """Take over what the image says."""
        if self._found_in is image.configs:
            return
        self._found_in = image.configs
        found = [configs for (kind, _), configs in image.configs.items() if kind == ConfigResourceType.CLIENT_METRICS]
        if len(found) == len(self._configs) and all(map(operator.is_, found, self._configs)):
            return  # none was set since: setting one to what it is makes it another
        self._configs = found
        self.all = [_subscription(configs) for configs in found]
        self.version += 1


class ClientTelemetry:
    """The instances of all clients. `attributes` are what subscriptions choose clients by."""

    def __init__(self, *, clock: Clock, chance: Chance, bytes_max: int) -> None:
        self._clock = clock
        self._chance = chance
        self.bytes_max = bytes_max
        """telemetry.max.bytes."""
        self._subscriptions = Subscriptions()
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()

    def subscribe(
        self, instance_id: UUID, attributes: Mapping[str, str], image: MetadataImage
    ) -> Pieces[tuple[UUID, Told]]:
        """The instance's id, new if it had none, and its subscription. Raises KafkaError when it asks too often."""
        if instance_id == ZERO_UUID:
            instance_id = self._chance.uuid()
        instance = yield from self._instance(instance_id, attributes, image)
        if not instance.may_get(self._clock.monotonic_ms()):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        metrics, instance.interval_ms = yield from _chosen(attributes, self._subscriptions.all)
        instance.subscription_id = _subscription_id(instance_id, metrics, instance.interval_ms)
        return instance_id, Told(instance.subscription_id, metrics, instance.interval_ms)

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
        """Check what a client pushes. Raises KafkaError."""
        if instance_id in RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = yield from self._instance(instance_id, attributes, image)
        refusal = self._refusal(instance, subscription_id, compression_type, size, is_terminating=is_terminating)
        instance.is_terminating = is_terminating
        instance.last_error = refusal
        if refusal:
            raise KafkaError(refusal)

    def _refusal(
        self, instance: ClientInstance, subscription_id: int, compression_type: int, size: int, *, is_terminating: bool
    ) -> ErrorCode:
        """Why a push is not taken, if it is not."""
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._clock.monotonic_ms()) and not is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= compression_type <= COMPRESSION_TYPE_MAX:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size > self.bytes_max else ErrorCode.NONE

    def _instance(
        self, instance_id: UUID, attributes: Mapping[str, str], image: MetadataImage
    ) -> Pieces[ClientInstance]:
        self._subscriptions.follow(image)
        version = self._subscriptions.version
        known = self._known(instance_id, version)
        if known is not None:
            return known
        metrics, interval_ms = yield from _chosen(attributes, self._subscriptions.all)
        known = self._known(instance_id, version)  # another request of the client may have made it meanwhile
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
    """Return metrics and interval over all subscriptions that choose the client."""
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
    """Return None for a pattern that is refused: it chooses no client."""
    if text in _PATTERNS:
        return _PATTERNS[text]
    try:
        pattern = yield from matcher.compile(text)
    except PatternRefusedError:
        pattern = None
    _PATTERNS[text] = pattern
    if len(_PATTERNS) > PATTERNS_MAX:
        del _PATTERNS[next(iter(_PATTERNS))]
    return pattern


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _subscription_id(instance_id: UUID, metrics: list[str], interval_ms: int) -> int:
    """An int32 that changes with the subscription, and is not the same for all clients."""
    checksum: int = crc32c(f"{sorted(metrics)}{interval_ms}".encode())
    mixed = checksum ^ crc32c(instance_id.bytes)
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
