"""Plans for client quotas: from a request to ClientQuotaRecords, with Kafka's checks and wording (KIP-546)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from kwire.cluster.configs.config_keys import ConfigType
from kwire.cluster.metadata.client_quotas import (
    ENTITY_TYPES,
    IP,
    IP_KEYS,
    USER_AND_CLIENT_KEYS,
    QuotaEntity,
)
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ClientQuotaEntityData, ClientQuotaRecord

Alterations = Mapping[str, float | None]
"""New value by quota key; None removes the quota."""

_LIMITS = {ConfigType.LONG: (float(2**63 - 1), "a LONG"), ConfigType.INT: (float(2**31 - 1), "an INT")}
"""Highest value of a type, and its name in messages; as a double, the one of LONG is 2**63, in Kafka as well."""
_FRACTION_MAX = 1e-6


def plan_client_quotas(
    image: MetadataImage, entity: QuotaEntity, alterations: Alterations, *, is_host: Callable[[str], bool]
) -> list[ClientQuotaRecord]:
    """Return the records that change an entity's quotas; unchanged values need none. Raises KafkaError."""
    keys = _keys_of(entity, is_host)
    before = image.client_quotas.get(entity, {})
    records = []
    for key, value in alterations.items():
        if value is None:
            if key in before:
                records.append(_record(entity, key, remove=True))
            continue
        _check_value(keys, key, value)
        if before.get(key) != value:
            records.append(_record(entity, key, value=value))
    return records


def _record(entity: QuotaEntity, key: str, *, value: float = 0.0, remove: bool = False) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[ClientQuotaEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=value,
        remove=remove,
    )


def _keys_of(entity: QuotaEntity, is_host: Callable[[str], bool]) -> Mapping[str, ConfigType]:
    """Return the keys that an entity may have, with their types. Raises KafkaError for an invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return USER_AND_CLIENT_KEYS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    host = names[IP]
    if host is not None and not is_host(host):
        raise _invalid(f"{host} is not a valid IP or resolvable host.")
    return IP_KEYS


def _check_value(keys: Mapping[str, ConfigType], key: str, value: float) -> None:
    kind = keys.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise _invalid(f"Quota {key} must be greater than 0")
    limit = _LIMITS.get(kind)
    if limit is None:
        return
    if value > limit[0]:
        raise _invalid(f"Proposed value for {key} is too large for {limit[1]}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
