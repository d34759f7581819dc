"""Plans for feature levels: upgrades, downgrades and removals, with Kafka's checks and wording (KIP-584)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kwire.cluster.metadata.features import (
    KRAFT_VERSION,
    KRAFT_VERSION_LEVEL,
    METADATA_VERSION,
    METADATA_VERSION_4_0_IV3,
    METADATA_VERSION_4_3_IV0,
    SUPPORTED,
)
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import FeatureLevelRecord


class UpgradeType(IntEnum):
    """Kinds of changes that a request allows."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """Requested level of one feature; 0 removes the feature."""

    name: str
    level: int
    upgrade_type: int


def plan_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    *,
    controller_id: int,
    kraft_version: int = KRAFT_VERSION_LEVEL,
    supported: Mapping[str, tuple[int, int]] = SUPPORTED,
    static_voters: Collection[int] = (),
) -> list[FeatureLevelRecord]:
    """Return the records of all updates. Raises KafkaError for the first invalid one: then none is applied.

    Every registered broker and controller must support a requested level, even if fenced: it stops at a level that it
    does not know. `static_voters` are the ids in controller.quorum.voters, which must have registered. The last update
    of a repeated feature counts. kraft.version has no record here, only its checks; its current level is a
    parameter.
    """
    records = []
    for update in {update.name: update for update in updates}.values():
        is_kraft_version = update.name == KRAFT_VERSION
        current = kraft_version if is_kraft_version else image.features.get(update.name, 0)
        error = (
            _local_error(update, controller_id, supported)
            or _node_error(update, image, controller_id, static_voters)
            or _change_error(update, current)
        )
        if error:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"The update failed for all features since the following feature had an error: {error}",
            )
        if update.level != current and not is_kraft_version:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return records


def _local_error(update: FeatureUpdate, controller_id: int, supported: Mapping[str, tuple[int, int]]) -> str | None:
    name, level = update.name, update.level
    invalid = _invalid(update)
    if update.upgrade_type not in UpgradeType.__members__.values():
        return invalid + "The controller does not support the given upgrade type."
    if level < 0:
        return invalid + "A feature version cannot be less than 0."
    if name not in supported:
        if level == 0:
            return invalid + f"Feature {name} not found."
        return invalid + f"Local controller {controller_id} does not support this feature."
    low, high = supported[name]
    if not low <= level <= high:
        return invalid + f"Local controller {controller_id} only supports versions {low}-{high}"
    return None


def _node_error(
    update: FeatureUpdate, image: MetadataImage, controller_id: int, static_voters: Collection[int]
) -> str | None:
    others = {node_id: each for node_id, each in image.controllers.items() if node_id != controller_id}
    nodes = [
        *((f"Broker {node_id}", each.features) for node_id, each in image.brokers.items()),
        *((f"Controller {node_id}", each.features) for node_id, each in others.items()),
    ]
    for node, features in nodes:
        low, high = next(((low, high) for name, low, high in features if name == update.name), (0, 0))
        if not low <= update.level <= high:
            can = f"only supports versions {low}-{high}" if high else "does not support this feature."
            return f"{_invalid(update)}{node} {can}"
    missing = sorted(set(static_voters) - {controller_id} - others.keys())
    if missing:
        return f"{_invalid(update)}controller {missing[0]} has not registered, and may not support this feature"
    return None


def _invalid(update: FeatureUpdate) -> str:
    return f"Invalid update version {update.level} for feature {update.name}. "


def _change_error(update: FeatureUpdate, current: int) -> str | None:
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return _invalid(update) + "Can't downgrade to a newer version."
    return None if update.level >= current else _downgrade_error(update, current, _invalid(update))


def _downgrade_error(update: FeatureUpdate, current: int, invalid: str) -> str | None:
    if update.name == KRAFT_VERSION:
        return invalid + "Can't downgrade the version of this feature."
    if update.upgrade_type == UpgradeType.UPGRADE:
        return (
            invalid + "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if update.name != METADATA_VERSION:
        return None
    if update.level >= METADATA_VERSION_4_0_IV3 and current < METADATA_VERSION_4_3_IV0:
        return None  # between those levels no record has changed its version
    reason = f"Unsupported metadata.version downgrade from {current} to {update.level}. "
    if update.upgrade_type == UpgradeType.SAFE_DOWNGRADE:
        return reason + "Refusing to perform the requested downgrade because it might delete metadata information."
    return reason + "Unsafe metadata downgrade is not supported in this version."
