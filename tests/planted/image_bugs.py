"""Bugs in the replay of metadata records, detected by comparison with images of the same logs from Apache Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from kwire.cluster.metadata import image
from kwire.protocol.messages import metadata_records as records
from tests.planted.bug import Catalogue

IMAGE_BUGS: Final = Catalogue()
_bug = IMAGE_BUGS.bug
_FOUND_BY = "cluster/test_drawn_images.py::test_images_are_those_of_kafka"


@_bug("Q11", _FOUND_BY)
def a_deleted_topic_leaves_its_configurations(patch: pytest.MonkeyPatch) -> None:
    """RemoveTopicRecord keeps the topic's configurations, and a new topic with the same name inherits them."""
    patch.setattr(image._Delta, "clear_values", lambda delta, name, key: None)


@_bug("Q11", _FOUND_BY)
def access_control_entries_stop_the_node(patch: pytest.MonkeyPatch) -> None:
    """A record type that only Apache Kafka's controllers write cannot be applied."""
    patch.delitem(image._CHANGES, records.AccessControlEntryRecord)


@_bug("Q11", _FOUND_BY)
def delegation_tokens_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    """Snapshots contain no delegation tokens, so that nodes that start from a snapshot lack them."""

    def drop(delta: Any, record: records.DelegationTokenRecord) -> None:
        """Leave the image as it is."""

    patch.setitem(image._CHANGES, records.DelegationTokenRecord, drop)


@_bug("Q11", _FOUND_BY)
def replicas_without_directory_ids_have_none(patch: pytest.MonkeyPatch) -> None:
    """Partitions of older record versions have fewer directory ids than replicas."""
    patch.setattr(image, "_directories", lambda directories, replica_count: tuple(directories))


@_bug("Q11", _FOUND_BY)
def a_new_leader_of_none_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A partition that loses its leader keeps the leader epoch."""
    change = image.changed_partition

    def keep(old: image.PartitionImage, record: records.PartitionChangeRecord) -> image.PartitionImage:
        new = change(old, record)
        return replace(new, leader_epoch=old.leader_epoch) if record.leader == -1 else new

    patch.setattr(image, "changed_partition", keep)


@_bug("Q11", _FOUND_BY)
def a_changed_registration_keeps_its_cordoned_directories(patch: pytest.MonkeyPatch) -> None:
    """BrokerRegistrationChangeRecord cannot cordon a log directory (KIP-1066)."""
    change = image._CHANGES[records.BrokerRegistrationChangeRecord]

    def without(delta: Any, record: records.BrokerRegistrationChangeRecord) -> None:
        change(delta, replace(record, cordoned_log_dirs=None))

    patch.setitem(image._CHANGES, records.BrokerRegistrationChangeRecord, without)
