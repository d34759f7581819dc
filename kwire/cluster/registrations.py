"""Brokers and controllers as the metadata log has them: what they said of themselves, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class Endpoint(NamedTuple):
    """Where a listener of a broker or controller is reached."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class SupportedFeature(NamedTuple):
    """Which levels of a feature a node can work with."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker as the controller knows it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A controller as the active one knows it."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...] = ()
