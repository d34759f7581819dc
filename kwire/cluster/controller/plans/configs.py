"""Decisions of the controller about configurations: from an image and changes to ConfigRecords, or a KafkaError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, cast

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigError, ConfigKey, ConfigResourceType, ConfigType, broker_id_of
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.group_configs import check_client_metrics_configs, check_group_configs
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.cluster.configs.topic_configs import check_topic_configs
from kwire.cluster.controller.eligible_leaders import check_min_insync, plan_clearing
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import ConfigResource, MetadataImage
from kwire.cluster.topic_names import check_topic_name
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord
from kwire.repeats import repeated

CORDONED = "cordoned.log.dirs"


class AlterOperation(IntEnum):
    """Operations of IncrementalAlterConfigs on a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(AlterOperation)

Change = tuple[str, int, str | None]
"""Tuple (key, AlterOperation, value)."""


def plan_replacement(
    image: MetadataImage,
    resource: ConfigResource,
    values: Mapping[str, str | None],
    *,
    settings: Mapping[str, Any],
    is_forwarded: bool = True,
) -> list[Any]:
    """Return the records that make `values` the whole configuration of a resource, on brokers with these settings.

    `is_forwarded` is True if a broker has validated the change and forwarded it. Raises KafkaError.
    """
    after = without_nulls(values)
    _check(image, resource, after, settings)
    before = dict(image.config_of(*resource))
    records = _difference(resource, before, after)
    _check_cordoned_directories(image, before, records, is_forwarded=is_forwarded)
    return _with_consequences(image, records)


_KEYS: Mapping[int, Mapping[str, ConfigKey]] = {
    ConfigResourceType.TOPIC: TOPIC_KEYS,
    ConfigResourceType.BROKER: BROKER_KEYS,
    ConfigResourceType.GROUP: GROUP_KEYS,
}
"""Keys by resource type, for operations on lists. Kafka has no such table for client metrics."""


def check_changes(changes: Sequence[Change]) -> Pieces[None]:
    """Reject changes that are invalid for every resource. Raises KafkaError."""
    if (yield from repeated(name for name, _, _ in changes)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    empty: list[str] = []
    unknown: list[int] = []
    for some in chunks(changes):
        empty += [name for name, operation, value in some if value is None and operation != AlterOperation.DELETE]
        unknown += [operation for _, operation, _ in some if operation not in _OPERATIONS]
        if len(some) == CHUNK:
            yield
    if empty:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")
    if unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0]}")


def without_nulls(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values of a replacement. Raises KafkaError if one is missing."""
    if None in values.values():
        empty = [name for name, value in values.items() if value is None]
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")
    return cast("dict[str, str]", dict(values))


def changed(resource: ConfigResource, before: Mapping[str, str], changes: Sequence[Change]) -> Pieces[dict[str, str]]:
    """Return the values of a resource after the changes. Raises KafkaError for a list operation on another type."""
    keys = _KEYS.get(resource[0], {})
    after = dict(before)
    for some in chunks(changes):
        for name, operation, value in some:
            if operation == AlterOperation.DELETE:
                after.pop(name, None)
                continue
            assert value is not None
            if operation == AlterOperation.SET:
                after[name] = value
            else:
                after[name] = _with_items(keys.get(name), name, AlterOperation(operation), value, before.get(name))
        if len(some) == CHUNK:
            yield
    return after


def _with_items(key: ConfigKey | None, name: str, operation: AlterOperation, value: str, before: str | None) -> str:
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )
    text = before if before is not None else key.default
    items = [item for item in (text or "").split(",") if item]
    given = value.split(",")
    if operation is AlterOperation.APPEND:
        present = set(items)
        return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in present)])
    spare = Counter(given)
    kept = []
    for item in items:
        if spare[item]:
            spare[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _check_cordoned_directories(
    image: MetadataImage, before: Mapping[str, str], records: Sequence[ConfigRecord], *, is_forwarded: bool
) -> None:
    """Reject entries that no broker has validated, and any change below metadata.version 4.3 (KIP-1066)."""
    record = next((each for each in records if each.name == CORDONED), None)
    if record is None:
        return
    if image.features.get(METADATA_VERSION, 0) < METADATA_VERSION_4_3_IV0:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED} cannot be set: it requires metadata.version {METADATA_VERSION_4_3_IV0} (4.3-IV0)",
        )
    if not is_forwarded and not _items(record.value) <= _items(before.get(CORDONED)):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED}: a controller only removes entries; send new ones to the broker, which validates them",
        )


def _items(value: str | None) -> set[str]:
    return {item.strip() for item in (value or "").split(",") if item.strip()}


def _check(
    image: MetadataImage, resource: ConfigResource, after: Mapping[str, str], settings: Mapping[str, Any]
) -> None:
    """Check that the resource may have these values and exists. Values of a broker were checked by that broker."""
    kind, name = resource
    try:
        if kind == ConfigResourceType.TOPIC:
            _check_topic(image, name, after, settings)
        elif kind == ConfigResourceType.BROKER:
            if name and broker_id_of(name) not in {*image.brokers, *image.controllers}:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"No broker with id {name} found.")
        elif kind == ConfigResourceType.CLIENT_METRICS:
            check_client_metrics_configs(name, after)
        elif kind == ConfigResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            check_group_configs(after, settings)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_topic(image: MetadataImage, name: str, after: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    check_topic_configs(after, settings)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _with_consequences(image: MetadataImage, changes: Sequence[ConfigRecord]) -> list[Any]:
    """Return the changes and their consequences for eligible leader replicas (KIP-966)."""
    check_min_insync(image, changes)
    return [*changes, *plan_clearing(image, changes)]


def _difference(resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> list[ConfigRecord]:
    kind, resource_name = resource
    names = [name for name in before if name not in after]
    names += [name for name, value in after.items() if before.get(name) != value]
    if not names and kind == ConfigResourceType.BROKER and resource_name:
        names = list(after)  # as in Kafka: the broker reads the files again that its settings name
    return [
        ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=after.get(name))
        for name in names
    ]
