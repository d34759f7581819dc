"""Rules for configurations with eligible leader replicas (KIP-966).

While fewer than min.insync.replicas are in sync, the high watermark does not advance. So a replica that leaves the
in-sync set then still has all committed records. This holds only if all nodes use the same min.insync.replicas. While
the feature is on, it is set for the cluster, optionally for topics, and never for single brokers. A change of it clears
the eligible leader replicas of the topics that it applies to.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.view import MIN_INSYNC_REPLICAS, ControllerView, is_elr_enabled
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord


def plan_safe_min_insync(view: ControllerView) -> list[ConfigRecord]:
    """Return the records that set the cluster's min.insync.replicas and remove those of single brokers."""
    records = []
    if MIN_INSYNC_REPLICAS not in view.image.config_of(ConfigResourceType.BROKER, ""):
        records.append(_config("", str(view.settings[MIN_INSYNC_REPLICAS])))
    records += [
        _config(name, None)
        for (kind, name), values in view.image.configs.items()
        if kind == ConfigResourceType.BROKER and name and MIN_INSYNC_REPLICAS in values
    ]
    return records


def _config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )


def check_min_insync(image: MetadataImage, changes: Sequence[ConfigRecord]) -> None:
    """Reject changes of configurations that the feature does not allow."""
    if not is_elr_enabled(image):
        return
    for change in changes:
        if change.name != MIN_INSYNC_REPLICAS or change.resource_type != ConfigResourceType.BROKER:
            continue
        if change.resource_name:
            message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        elif change.value is None:
            message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def plan_clearing(image: MetadataImage, changes: Sequence[ConfigRecord]) -> list[ClearElrRecord]:
    """Return the ClearElrRecords that must follow changes of min.insync.replicas, for a topic or for all topics."""
    if not is_elr_enabled(image):
        return []
    return [
        ClearElrRecord(topic_name=change.resource_name if change.resource_type == ConfigResourceType.TOPIC else "")
        for change in changes
        if change.name == MIN_INSYNC_REPLICAS
    ]
