"""Helpers that create limits, request contexts and quota managers on virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kwire.cluster.metadata.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity, make_entity
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.api_keys import ApiKey
from kwire.server.quotas.limits import QuotaLimits
from kwire.server.quotas.manager import ClientQuotaManager, QuotaConfig

Wanted = Mapping[QuotaEntity, float]


def limits_of(wanted: Wanted) -> QuotaLimits:
    return QuotaLimits(
        {make_entity(entity): {PRODUCER_BYTE_RATE: value} for entity, value in wanted.items()}, PRODUCER_BYTE_RATE
    )


class HandClock:
    """Clock that a test advances."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def wall_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


def manager(key: str, wanted: Wanted) -> tuple[ClientQuotaManager, HandClock]:
    clock = HandClock()
    made = ClientQuotaManager(clock=clock, config=QuotaConfig())
    made.load(image_of(key, wanted))
    return made, clock


def image_of(key: str, wanted: Wanted) -> MetadataImage:
    return MetadataImage(client_quotas={make_entity(entity): {key: value} for entity, value in wanted.items()})


def context(api_key: ApiKey, *, client_id: str | None = "app", user: str = "alice", version: int = 99) -> Any:
    connection = SimpleNamespace(principal=f"User:{user}", authentication=None)
    return SimpleNamespace(api_key=api_key, client_id=client_id, connection=connection, version=version)
