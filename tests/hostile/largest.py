"""Requests with long lists, derived from the schemas of every API and not written by hand.

A request has one long list. Each array of a request, at any depth, gets its turn. It is filled once with names and
numbers of existing resources, and once with those of missing ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kwire.protocol.primitives import Primitive
from kwire.protocol.schema import Array, FieldSchema, Schema, schema_of
from kwire.server.requests.api import Api

ArrayPath = tuple[str, ...]
"""Field names from the request to the array."""

TOPIC_NAMES = ("name", "topic", "topic_name", "topic_names", "resource_name", "topics")
GROUP_IDS = ("group_id", "group", "groups", "groups_names", "key", "coordinator_keys")
PARTITION_INDEXES = ("partition_index", "partition_indexes", "partition", "partitions", "index", "partition_id")
CHOSEN: dict[str, Any] = {
    "acks": 1,
    "config_name": "retention.ms",
    "count": 1,
    "current_leader_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "isolation_level": 0,
    "key_type": 0,
    "max_bytes": 1 << 20,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "num_partitions": 1,
    "partition_max_bytes": 1 << 10,
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 1 << 20,
    "session_epoch": -1,
    "timeout_ms": 100,
    "timestamp": -1,
    "validate_only": True,
    "value": "1000",
}
"""Values that let a request pass its first check."""


@dataclass(frozen=True, slots=True)
class Known:
    """Existing resources: names of topics, their ids, and groups."""

    topics: tuple[str, ...]
    topic_ids: tuple[UUID, ...]
    groups: tuple[str, ...]
    partition_count: int
    """Partition count of the first topic."""


def array_paths(schema: Schema, version: int) -> Iterator[ArrayPath]:
    """Yield the paths of a message's arrays, at any depth."""
    for spec in schema.fields:
        if not spec.present(version):
            continue
        inner = spec.type
        if isinstance(inner, Array):
            yield (spec.name,)
            inner = inner.element
        if isinstance(inner, Schema):
            for path in array_paths(inner, version):
                yield (spec.name, *path)


def long_request(api: Api, path: ArrayPath, count: int, known: Known | None) -> Any:
    """Return a request of the newest version whose array at `path` has `count` elements.

    `known` is None for names and numbers of missing resources.
    """
    return _Filling(api.max_version, count, known).filled(schema_of(api.request), path, 0)


class _Filling:
    def __init__(self, version: int, count: int, known: Known | None) -> None:
        self._version = version
        self._count = count
        self._known = known

    def filled(self, schema: Schema, path: ArrayPath, number: int) -> Any:
        """Return a value of `schema`; `path` leads from it to the long array; it is empty if the array is elsewhere."""
        fields = {spec.name: self._value(spec, path, number) for spec in schema.fields if spec.present(self._version)}
        return schema.cls(**fields)

    def _value(self, spec: FieldSchema, path: ArrayPath, number: int) -> Any:
        is_on_path = bool(path) and path[0] == spec.name
        rest = path[1:] if is_on_path else ()
        if isinstance(spec.type, Array):
            if is_on_path and not rest:
                return [self._element(spec, spec.type.element, (), each) for each in range(self._count)]
            return [self._element(spec, spec.type.element, rest, number)] if is_on_path or not path else []
        return self._element(spec, spec.type, rest, number)

    def _element(self, spec: FieldSchema, wire_type: Primitive | Schema, path: ArrayPath, number: int) -> Any:
        if isinstance(wire_type, Schema):
            return self.filled(wire_type, path, number)
        if wire_type.name == "string":
            return self._text(spec, number)
        if wire_type.name == "uuid":
            ids = self._known.topic_ids if self._known else ()
            return ids[number % len(ids)] if ids else UUID(int=number + 1)
        if spec.name in CHOSEN and wire_type.name != "float64":
            return CHOSEN[spec.name]
        if spec.name in PARTITION_INDEXES:
            return number % self._known.partition_count if self._known else number
        return wire_type.default if isinstance(spec.type, Array) else spec.default

    def _text(self, spec: FieldSchema, number: int) -> Any:
        if spec.name in CHOSEN:
            return CHOSEN[spec.name]
        if self._known is None:
            return f"unknown-{number}"
        if spec.name in GROUP_IDS:
            return self._known.groups[number % len(self._known.groups)]
        if spec.name in TOPIC_NAMES:
            return self._known.topics[number % len(self._known.topics)]
        return spec.default if isinstance(spec.default, str) else "known"
