"""Metadata image: the state that the metadata log describes at one offset; immutable.

`MetadataImage.apply` returns the image after a batch of records. Its cost depends on what the batch changes: large maps
are persistent maps (persistent_map.py), small maps are copied. Code that holds an image has a consistent view;
`changed_keys` returns the differences of two images. A record of an unknown type raises UnknownRecord and stops the
caller: a node that skipped it would disagree with the other nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from kwire.chunks import Pieces, at_once, chunks
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.directory_ids import MIGRATING
from kwire.cluster.metadata.acl_records import acl_of
from kwire.cluster.metadata.client_quotas import QuotaEntity, make_entity
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.persistent_map import MapDraft, PersistentMap
from kwire.cluster.metadata.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    endpoints_of,
    features_of,
)
from kwire.cluster.metadata.scram import ScramCredential, ScramCredentials
from kwire.cluster.metadata.topic_id_map import TopicIdDraft, TopicIdMap
from kwire.cluster.security.acls import Acl
from kwire.cluster.topic_names import can_collide, collision_key
from kwire.protocol.messages import metadata_records as records

NO_LEADER = -1
UNCHANGED_LEADER = -2
"""Value of PartitionChangeRecord.leader for an unchanged leader."""

ConfigResource = tuple[int, str]
"""Tuple (ConfigResourceType, name)."""

RECORDS_AT_ONCE = 128
"""Number of records that are encoded, decoded or applied in one step: at 10 to 20 us each, about 2 ms."""


class UnknownRecord(Exception):  # noqa: N818 named after the record that was found
    """The metadata log contains a record type or a feature level that this version cannot apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """State of one partition. `leader` is NO_LEADER when no replica can lead."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    """1 after an unclean election, until the new leader has recovered its log."""


class MadePartitions(NamedTuple):
    """Partition images made from the PartitionRecords of one topic, applied in one step."""

    topic_id: UUID
    partitions: dict[int, PartitionImage]


class ChangedPartitions(NamedTuple):
    """PartitionChangeRecords of one topic, and the topic that results if `before` is still its current image."""

    before: TopicImage
    after: TopicImage
    records: list[records.PartitionChangeRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """Topic with its partitions, which are numbered from 0 without gaps."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """Metadata after the record at `offset`; -1 before the first record."""

    offset: int = -1
    epoch: int = 0
    features: Mapping[str, int] = field(default_factory=_empty)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=_empty)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=_empty)
    topics: Mapping[str, TopicImage] = field(default_factory=PersistentMap)
    topic_names: Mapping[UUID, str] = field(default_factory=TopicIdMap)
    """Topic names by topic id. Read for each produced batch."""
    topics_by_collision_key: Mapping[str, tuple[str, ...]] = field(default_factory=PersistentMap)
    """Topics with a period or an underscore in their name, by the name that their metrics would have."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=PersistentMap)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=PersistentMap)
    scram: ScramCredentials = field(default_factory=PersistentMap)
    next_producer_id: int = 0
    acls: Mapping[UUID, Acl] = field(default_factory=PersistentMap)
    """Access control entries by id."""
    acl_ids: Mapping[Acl, UUID] = field(default_factory=PersistentMap)
    """Ids of access control entries."""
    delegation_tokens: Mapping[str, records.DelegationTokenRecord] = field(default_factory=PersistentMap)
    """Delegation tokens by id (KIP-48)."""

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def config_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configuration overrides of one resource."""
        return self.configs.get((resource_type, name), MappingProxyType({}))

    def apply(self, batch: Iterable[Any], *, offset: int, epoch: int) -> MetadataImage:
        """Return the image after the records of a batch; `offset` is the batch's last offset. Raises UnknownRecord."""
        return at_once(self.apply_in_pieces(batch, offset=offset, epoch=epoch))

    def apply_in_pieces(self, batch: Iterable[Any], *, offset: int, epoch: int) -> Pieces[MetadataImage]:
        """Do the same as `apply`, RECORDS_AT_ONCE records at a time."""
        delta = _Delta(self)
        for some in chunks(batch, RECORDS_AT_ONCE):
            for record in some:
                change = _CHANGES.get(type(record)) or _PREPARED.get(type(record))
                if change is None:
                    raise UnknownRecord(f"cannot apply a {type(record).__name__} at or before offset {offset}")
                change(delta, record)
            if len(some) == RECORDS_AT_ONCE:
                yield
        return dataclasses.replace(self, offset=offset, epoch=epoch, **delta.finish())


class _Delta:
    """Maps that a batch has changed so far; each one is copied at its first change."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.changed: dict[str, Any] = {}
        self._partitions: dict[UUID, dict[int, PartitionImage]] = {}
        """Partitions of the topics that the batch changes. They become tuples once, in `finish`, because the records
        may name them in any order."""
        self._values: dict[tuple[str, Any], dict[Any, Any]] = {}
        """Changed inner maps, by map name and key; stored in their outer maps once, in `finish`."""

    def finish(self) -> dict[str, Any]:
        """Return all changed maps."""
        for topic_id, partitions in self._partitions.items():
            topic = self.topic_of(topic_id)
            count = len(partitions)
            assert partitions.keys() == set(range(count)), f"{topic.name} has {count} partitions with a gap"
            in_order = tuple(map(partitions.__getitem__, range(count)))
            self.map("topics")[topic.name] = dataclasses.replace(topic, partitions=in_order)
        for (name, key), values in self._values.items():
            if values:
                self.map(name)[key] = MappingProxyType(values)
            else:
                self.map(name).pop(key, None)
        return {
            name: each.finish() if isinstance(each, (MapDraft, TopicIdDraft)) else each
            for name, each in self.changed.items()
        }

    def partitions_of(self, topic_id: UUID) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = dict(enumerate(self.topic_of(topic_id).partitions))
        return partitions

    def is_untouched(self, topic: TopicImage) -> bool:
        """Return True if the topic is still this object: the batch has not changed it so far."""
        return topic.topic_id not in self._partitions and self.topic_of(topic.topic_id) is topic

    def forget(self, topic_id: UUID) -> None:
        """Drop the changes of a topic that is deleted."""
        self._partitions.pop(topic_id, None)

    def map(self, name: str) -> MutableMapping[Any, Any]:
        if name not in self.changed:
            before = getattr(self.base, name)
            self.changed[name] = before.draft() if isinstance(before, (PersistentMap, TopicIdMap)) else dict(before)
        changed: MutableMapping[Any, Any] = self.changed[name]
        return changed

    def values_of(self, name: str, key: Any) -> dict[Any, Any]:
        """Return the inner map at a key of a map of maps, as a copy to change. An empty inner map removes the key."""
        values = self._values.get((name, key))
        if values is None:
            values = self._values[name, key] = dict(self.map(name).get(key, {}))
        return values

    def clear_values(self, name: str, key: Any) -> None:
        """Remove all values at a key of a map of maps. A map without the key stays shared."""
        if (name, key) in self._values or key in getattr(self.base, name):
            self.values_of(name, key).clear()

    def topic_of(self, topic_id: UUID) -> TopicImage:
        names = self.changed.get("topic_names", self.base.topic_names)
        topics = self.changed.get("topics", self.base.topics)
        name = names.get(topic_id)
        assert name is not None, f"a record names the unknown topic id {topic_id}"
        topic: TopicImage = topics[name]
        return topic


def _feature_level(delta: _Delta, record: records.FeatureLevelRecord) -> None:
    low, high = SUPPORTED.get(record.name, (0, 0))
    if record.feature_level and not low <= record.feature_level <= high:
        raise UnknownRecord(f"{record.name} is at level {record.feature_level}; supported are {low} to {high}")
    features = delta.map("features")
    if record.feature_level:
        features[record.name] = record.feature_level
    else:
        features.pop(record.name, None)


def _topic(delta: _Delta, record: records.TopicRecord) -> None:
    delta.map("topics")[record.name] = TopicImage(name=record.name, topic_id=record.topic_id, partitions=())
    delta.map("topic_names")[record.topic_id] = record.name
    if can_collide(record.name):
        alike, key = delta.map("topics_by_collision_key"), collision_key(record.name)
        alike[key] = tuple(dict.fromkeys((*alike.get(key, ()), record.name)))


def new_partition(record: records.PartitionRecord) -> PartitionImage:
    """Return the image of a new partition from its first record."""
    return PartitionImage(
        replicas=tuple(record.replicas),
        directories=_directories(record.directories, len(record.replicas)),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader_recovery_state=record.leader_recovery_state,
    )


def _partition(delta: _Delta, record: records.PartitionRecord) -> None:
    delta.partitions_of(record.topic_id)[record.partition_id] = new_partition(record)


def _made_partitions(delta: _Delta, made: MadePartitions) -> None:
    delta.partitions_of(made.topic_id).update(made.partitions)


def _changed_partitions(delta: _Delta, changed: ChangedPartitions) -> None:
    """Store the prepared topic, or only its partitions that have not changed since; apply the other records again."""
    before, after = changed.before, changed.after
    if delta.is_untouched(before):
        delta.map("topics")[after.name] = after
        return
    partitions = delta.partitions_of(before.topic_id)
    taken = {
        index: is_now
        for index, (was, is_now) in enumerate(zip(before.partitions, after.partitions, strict=True))
        if is_now is not was and partitions[index] is was
    }
    partitions.update(taken)
    for record in changed.records:
        if record.partition_id not in taken:
            _partition_change(delta, record)


def _directories(directories: Sequence[UUID], replica_count: int) -> tuple[UUID, ...]:
    """Return one directory id for each replica. Records older than KIP-858 contain none."""
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * replica_count
    return tuple(directories)


def changed_partition(old: PartitionImage, record: records.PartitionChangeRecord) -> PartitionImage:
    """Return a partition after a change. Its partition epoch grows by one, its leader epoch with each named leader."""
    changes: dict[str, Any] = {"partition_epoch": old.partition_epoch + 1}
    if record.leader != UNCHANGED_LEADER:
        changes |= {"leader": record.leader, "leader_epoch": old.leader_epoch + 1}
    if record.leader_recovery_state >= 0:
        changes["leader_recovery_state"] = record.leader_recovery_state
    for name in (
        "isr",
        "replicas",
        "removing_replicas",
        "adding_replicas",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    ):
        value = getattr(record, name)
        if value is not None:
            changes[name] = tuple(value)
    replicas = changes.get("replicas", old.replicas)
    changes["directories"] = _directories(changes.get("directories", old.directories), len(replicas))
    return dataclasses.replace(old, **changes)


def _partition_change(delta: _Delta, record: records.PartitionChangeRecord) -> None:
    partitions = delta.partitions_of(record.topic_id)
    partitions[record.partition_id] = changed_partition(partitions[record.partition_id], record)


def _clear_eligible_leaders(delta: _Delta, record: records.ClearElrRecord) -> None:
    """Clear the ELR of one topic, or of all topics if none is named. Kafka writes the record when min.insync.replicas
    or its default changes.
    """
    topics = delta.map("topics")
    for name in [record.topic_name] if record.topic_name else list(topics):
        topic_id = topics[name].topic_id
        for index, partition in list(delta.partitions_of(topic_id).items()):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                change = records.PartitionChangeRecord(
                    topic_id=topic_id, partition_id=index, eligible_leader_replicas=[], last_known_elr=[]
                )
                _partition_change(delta, change)


def _remove_topic(delta: _Delta, record: records.RemoveTopicRecord) -> None:
    """Remove a topic and its configurations: Kafka's controller writes no separate records for the configurations."""
    delta.forget(record.topic_id)
    name = delta.map("topic_names").pop(record.topic_id)
    del delta.map("topics")[name]
    if can_collide(name):
        alike, key = delta.map("topics_by_collision_key"), collision_key(name)
        alike[key] = tuple(other for other in alike[key] if other != name)
        if not alike[key]:
            del alike[key]
    delta.clear_values("configs", (ConfigResourceType.TOPIC, name))


def _config(delta: _Delta, record: records.ConfigRecord) -> None:
    values = delta.values_of("configs", (record.resource_type, record.resource_name))
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record.value


def _client_quota(delta: _Delta, record: records.ClientQuotaRecord) -> None:
    entity = make_entity((each.entity_type, each.entity_name) for each in record.entity)
    values = delta.values_of("client_quotas", entity)
    if record.remove:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value


def _scram_credential(delta: _Delta, record: records.UserScramCredentialRecord) -> None:
    delta.values_of("scram", record.name)[record.mechanism] = ScramCredential(
        salt=record.salt, stored_key=record.stored_key, server_key=record.server_key, iterations=record.iterations
    )


def _remove_scram_credential(delta: _Delta, record: records.RemoveUserScramCredentialRecord) -> None:
    delta.values_of("scram", record.name).pop(record.mechanism, None)


def _register_broker(delta: _Delta, record: records.RegisterBrokerRecord) -> None:
    delta.map("brokers")[record.broker_id] = BrokerRegistration(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
        cordoned_directories=tuple(record.cordoned_log_dirs or ()),
    )


def _broker_change(delta: _Delta, record: records.BrokerRegistrationChangeRecord) -> None:
    brokers = delta.map("brokers")
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        changes["directories"] = tuple(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_directories"] = tuple(record.cordoned_log_dirs)
    brokers[record.broker_id] = dataclasses.replace(brokers[record.broker_id], **changes)


def _unregister_broker(delta: _Delta, record: records.UnregisterBrokerRecord) -> None:
    delta.map("brokers").pop(record.broker_id, None)


def _fence(delta: _Delta, record: records.FenceBrokerRecord) -> None:
    brokers = delta.map("brokers")
    brokers[record.id] = dataclasses.replace(brokers[record.id], fenced=True)


def _unfence(delta: _Delta, record: records.UnfenceBrokerRecord) -> None:
    brokers = delta.map("brokers")
    brokers[record.id] = dataclasses.replace(brokers[record.id], fenced=False)


def _register_controller(delta: _Delta, record: records.RegisterControllerRecord) -> None:
    delta.map("controllers")[record.controller_id] = ControllerRegistration(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
    )


def _access_control_entry(delta: _Delta, record: records.AccessControlEntryRecord) -> None:
    delta.map("acls")[record.id] = acl = acl_of(record)
    delta.map("acl_ids")[acl] = record.id


def _remove_access_control_entry(delta: _Delta, record: records.RemoveAccessControlEntryRecord) -> None:
    acl = delta.map("acls").pop(record.id, None)
    if acl is None:
        raise UnknownRecord(f"a RemoveAccessControlEntryRecord names the unknown id {record.id}")
    ids = delta.map("acl_ids")
    if ids.get(acl) == record.id:
        del ids[acl]


def _delegation_token(delta: _Delta, record: records.DelegationTokenRecord) -> None:
    delta.map("delegation_tokens")[record.token_id] = record


def _remove_delegation_token(delta: _Delta, record: records.RemoveDelegationTokenRecord) -> None:
    delta.map("delegation_tokens").pop(record.token_id, None)


def _producer_ids(delta: _Delta, record: records.ProducerIdsRecord) -> None:
    delta.changed["next_producer_id"] = record.next_producer_id


def _nothing(delta: _Delta, record: Any) -> None:
    """Ignore a record without state: a no-op, the end of a ZooKeeper migration, or the begin or end marker of a
    metadata transaction, which `Replay` handles.
    """


_CHANGES: Mapping[type, Callable[[_Delta, Any], None]] = {
    records.FeatureLevelRecord: _feature_level,
    records.TopicRecord: _topic,
    records.PartitionRecord: _partition,
    records.PartitionChangeRecord: _partition_change,
    records.ClearElrRecord: _clear_eligible_leaders,
    records.RemoveTopicRecord: _remove_topic,
    records.ConfigRecord: _config,
    records.ClientQuotaRecord: _client_quota,
    records.UserScramCredentialRecord: _scram_credential,
    records.RemoveUserScramCredentialRecord: _remove_scram_credential,
    records.RegisterBrokerRecord: _register_broker,
    records.BrokerRegistrationChangeRecord: _broker_change,
    records.UnregisterBrokerRecord: _unregister_broker,
    records.FenceBrokerRecord: _fence,
    records.UnfenceBrokerRecord: _unfence,
    records.RegisterControllerRecord: _register_controller,
    records.AccessControlEntryRecord: _access_control_entry,
    records.RemoveAccessControlEntryRecord: _remove_access_control_entry,
    records.DelegationTokenRecord: _delegation_token,
    records.RemoveDelegationTokenRecord: _remove_delegation_token,
    records.ProducerIdsRecord: _producer_ids,
    records.ZkMigrationStateRecord: _nothing,
    records.NoOpRecord: _nothing,
    records.AbortTransactionRecord: _nothing,
    records.BeginTransactionRecord: _nothing,
    records.EndTransactionRecord: _nothing,
}
_PREPARED: Mapping[type, Callable[[_Delta, Any], None]] = {
    MadePartitions: _made_partitions,
    ChangedPartitions: _changed_partitions,
}
"""Groups of records that prepared_records.py has already turned into images."""
