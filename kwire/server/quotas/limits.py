"""Selection of the quota that counts for a client: the most specific one of user and client id, or a default.

The order is Kafka's: (user, client-id), (user, default client-id), (user), (default user, client-id), (default user,
default client-id), (default user), (client-id), (default client-id). Clients that share a quota share its measure: with
a user's quota, all connections of the user. With a default client-id quota, each client id has its own measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from kwire.cluster.metadata.client_quotas import CLIENT_ID, IP, USER, ClientQuotas

Client = tuple[str, str]
"""User and client id; an empty one in a measure's key does not count."""

_DEFAULT = object()
"""Placeholder for the default of an entity type."""
_ANY = object()
"""Placeholder for an entity type that the entity does not have."""
_Place = tuple[object, object]
"""Key of a limit: a user and a client id, each a name, _DEFAULT or _ANY."""


class Limits(Protocol):
    """Limits of one quota key."""

    def __bool__(self) -> bool:
        """Return True if any client has a limit."""

    def find(self, user: str, client_id: str) -> tuple[Client, float] | None:
        """Return the client whose measure counts for this client, and the limit; None without a limit."""


class QuotaLimits:
    """Limits of users and client ids for one quota key, such as producer_byte_rate."""

    __slots__ = ("_limits",)

    def __init__(self, quotas: ClientQuotas, key: str) -> None:
        self._limits: Mapping[_Place, float] = {
            _place(dict(entity)): _limit(values[key])
            for entity, values in quotas.items()
            if key in values and not {USER, CLIENT_ID}.isdisjoint(kind for kind, _ in entity)
        }

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[Client, float] | None:
        shared = self._shared_by(user, client_id)
        limit = self._limit_of(*shared)
        return None if limit is None else (shared, limit)

    def _shared_by(self, user: str, client_id: str) -> Client:
        limits = self._limits
        for named_user in (user, _DEFAULT):
            if (named_user, client_id) in limits or (named_user, _DEFAULT) in limits:
                return user, client_id
            if (named_user, _ANY) in limits:
                return user, ""
        return "", client_id

    def _limit_of(self, user: str, client_id: str) -> float | None:
        places: tuple[_Place, ...] = ()
        if user and client_id:
            places = ((user, client_id), (user, _DEFAULT), (_DEFAULT, client_id), (_DEFAULT, _DEFAULT))
        elif user:
            places = ((user, _ANY), (_DEFAULT, _ANY))
        elif client_id:
            places = ((_ANY, client_id), (_ANY, _DEFAULT))
        return next((self._limits[place] for place in places if place in self._limits), None)


def _place(entity: Mapping[str, str | None]) -> _Place:
    def name(kind: str) -> object:
        if kind not in entity:
            return _ANY
        given = entity[kind]
        return _DEFAULT if given is None else given

    return name(USER), name(CLIENT_ID)


def quotas_of_hosts(quotas: ClientQuotas) -> dict[str, Mapping[str, float]]:
    """Return the quotas of named IP addresses or hosts."""
    return {
        name: values for entity, values in quotas.items() for kind, name in entity if kind == IP and name is not None
    }


class AddressLimits:
    """Limits of IP addresses: `user` is the address, and the client id is empty."""

    __slots__ = ("_default", "_limits")

    def __init__(self, quotas: ClientQuotas, key: str, address_of: Callable[[str], str] = str) -> None:
        self._limits: dict[str, float] = {}
        self._default: float | None = None
        for entity, values in quotas.items():
            names = dict(entity)
            if key not in values or IP not in names:
                continue
            host = names[IP]
            if host is None:
                self._default = _limit(values[key])
            else:
                self._limits[address_of(host)] = _limit(values[key])

    def __bool__(self) -> bool:
        return bool(self._limits) or self._default is not None

    def find(self, user: str, client_id: str) -> tuple[Client, float] | None:
        limit = self._limits.get(user, self._default)
        return None if limit is None else ((user, client_id), limit)


def _limit(value: float) -> float:
    """Return the limit, infinite for NaN: Kafka accepts NaN, and no rate is above it."""
    return math.inf if math.isnan(value) else value
