"""Client quotas in the metadata: entities, their keys, and filters that select entities (KIP-546).

An entity is a set of (type, name) pairs, stored as a tuple in Kafka's order. The name None is the type's default, which
applies to all users or clients without a quota of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kwire.cluster.configs.config_keys import ConfigType
from kwire.protocol.error_codes import ErrorCode, KafkaError

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (CLIENT_ID, USER, IP)
"""Entity types in Kafka's order."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

USER_AND_CLIENT_KEYS: Mapping[str, ConfigType] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
IP_KEYS: Mapping[str, ConfigType] = {CONNECTION_CREATION_RATE: ConfigType.INT}

QuotaEntity = tuple[tuple[str, str | None], ...]
ClientQuotas = Mapping[QuotaEntity, Mapping[str, float]]


def make_entity(pairs: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these pairs, unknown types last; the last name of a repeated type wins."""
    names = dict(pairs)
    known = [(kind, names.pop(kind)) for kind in ENTITY_TYPES if kind in names]
    return (*known, *names.items())


def entity_text(entity: QuotaEntity) -> str:
    """Return the entity as Kafka's messages show it."""
    inside = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{inside}}})"


class MatchType(IntEnum):
    """Match types of a filter component."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """Filter for entities: types that need an exact name (None: the default), and types with any name."""

    exact: Mapping[str, str | None]
    any_name: frozenset[str]
    strict: bool
    """True to leave out entities that have types beyond those of the filter."""

    def matches(self, entity: QuotaEntity) -> bool:
        names = dict(entity)
        if self.strict and len(names) != len(self.exact) + len(self.any_name):
            return False
        return all(kind in names and names[kind] == name for kind, name in self.exact.items()) and all(
            kind in names for kind in self.any_name
        )


def make_filter(components: Sequence[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """Return the filter of (entity type, match type, name) components. Raises KafkaError where Kafka rejects them."""
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for kind, match_type, name in components:
        _check_type(kind, is_repeated=kind in exact or kind in any_name)
        _check_name(match_type, name)
        if match_type == MatchType.SPECIFIED:
            any_name.add(kind)
        else:
            exact[kind] = name
    kinds = exact.keys() | any_name
    if IP in kinds and len(kinds) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return QuotaFilter(exact=exact, any_name=frozenset(any_name), strict=strict)


def _check_type(kind: str, *, is_repeated: bool) -> None:
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")


def _check_name(match_type: int, name: str | None) -> None:
    if match_type not in MatchType.__members__.values():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
    match = MatchType(match_type)
    if match is MatchType.EXACT and name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match is not MatchType.EXACT and name is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Request specified MATCH_TYPE_{match.name}, but also specified a match string.",
        )
