"""Registrations of brokers and controllers in the metadata log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kwire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
)


class Endpoint(NamedTuple):
    """Address of a listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class SupportedFeature(NamedTuple):
    """Range of levels of a feature that a node supports."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """Registration of a broker, with its fencing and shutdown state."""

    broker_id: int
    broker_epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[UUID, ...]
    cordoned_directories: tuple[UUID, ...] = ()
    """Log directories that get no new replicas (KIP-1066)."""

    @property
    def is_active(self) -> bool:
        """True if the broker may lead and be in sync: it is neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """Registration of a controller."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...] = ()


def endpoints_of(listeners: Iterable[BrokerEndpoint | ControllerEndpoint]) -> tuple[Endpoint, ...]:
    """Return the endpoints of a record."""
    return tuple(
        Endpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
        for end in listeners
    )


def features_of(features: Iterable[BrokerFeature | ControllerFeature]) -> tuple[SupportedFeature, ...]:
    """Return the supported features of a record."""
    return tuple(
        SupportedFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in features
    )
