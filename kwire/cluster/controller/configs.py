"""The controller's decisions about configurations: from an image and changes to ConfigRecords, or a KafkaError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

from kwire.cluster.config_keys import ConfigError, ConfigKey, ConfigResourceType, ConfigType, parse
from kwire.cluster.image import ConfigResource, MetadataImage
from kwire.cluster.topic_configs import TOPIC_KEYS, check_topic_configs
from kwire.cluster.topic_names import check_topic_name
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ConfigRecord


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs does to a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change = tuple[str, int, str | None]
"""(key, AlterOperation, value)"""


def plan_incremental(
    image: MetadataImage,
    resource: ConfigResource,
    changes: Sequence[Change],
    *,
    broker_keys: Mapping[str, ConfigKey],
) -> list[ConfigRecord]:
    """The records of an incremental change to one resource."""
    _check_resource(image, resource)
    _check_changes(changes)
    before = dict(image.config_of(*resource))
    after = dict(before)
    for name, operation, value in changes:
        after_value = _altered(resource, name, AlterOperation(operation), value, before.get(name), broker_keys)
        if after_value is None:
            after.pop(name, None)
        else:
            after[name] = after_value
    _check_values(resource, after, broker_keys)
    return _difference(resource, before, after)


def plan_replacement(
    image: MetadataImage,
    resource: ConfigResource,
    values: Mapping[str, str | None],
    *,
    broker_keys: Mapping[str, ConfigKey],
) -> list[ConfigRecord]:
    """The records that make `values` the whole configuration of a resource, as the old AlterConfigs does."""
    _check_resource(image, resource)
    empty = [name for name, value in values.items() if value is None]
    if empty:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")
    after = {name: value for name, value in values.items() if value is not None}
    _check_values(resource, after, broker_keys)
    return _difference(resource, dict(image.config_of(*resource)), after)


def _check_resource(image: MetadataImage, resource: ConfigResource) -> None:
    kind, name = resource
    if kind == ConfigResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == ConfigResourceType.BROKER:
        if name and name not in map(str, image.brokers):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"No broker with id {name} found.")
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {kind}.")


def _check_changes(changes: Sequence[Change]) -> None:
    repeats = Counter(name for name, _, _ in changes)
    duplicates = sorted(name for name, count in repeats.items() if count > 1)
    if duplicates:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(duplicates)}")
    for _, operation, _ in changes:
        if operation not in AlterOperation.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown config operation {operation}.")
    empty = [name for name, operation, value in changes if value is None and operation != AlterOperation.DELETE]
    if empty:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")


def _key_of(resource: ConfigResource, name: str, broker_keys: Mapping[str, ConfigKey]) -> ConfigKey | None:
    return (TOPIC_KEYS if resource[0] == ConfigResourceType.TOPIC else broker_keys).get(name)


def _altered(
    resource: ConfigResource,
    name: str,
    operation: AlterOperation,
    value: str | None,
    before: str | None,
    broker_keys: Mapping[str, ConfigKey],
) -> str | None:
    if operation is AlterOperation.DELETE:
        return None
    if operation is AlterOperation.SET:
        return value
    assert value is not None
    key = _key_of(resource, name, broker_keys)
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    text = before if before is not None else key.default
    items = [item for item in (text or "").split(",") if item]
    for item in value.split(","):
        if operation is AlterOperation.APPEND and item not in items:
            items.append(item)
        elif operation is AlterOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_values(resource: ConfigResource, values: Mapping[str, str], broker_keys: Mapping[str, ConfigKey]) -> None:
    try:
        if resource[0] == ConfigResourceType.TOPIC:
            check_topic_configs(values)
            return
        for name, value in values.items():
            key = broker_keys.get(name)
            if key is None:
                continue  # Kafka keeps unknown broker configurations, for plug-ins that may read them
            if not key.dynamic:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({name})")
            parse(key, value)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _difference(resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> list[ConfigRecord]:
    kind, resource_name = resource
    names = [name for name in before if name not in after]
    names += [name for name, value in after.items() if before.get(name) != value]
    return [
        ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=after.get(name))
        for name in names
    ]
