"""Random metadata logs by seed: records as Kafka's controller writes them, in any order that it could write.

A log is a list of batches; a batch is a list of framed records. Kafka's image can apply every record: a changed broker
is registered at its epoch, and a removed topic exists. Metadata transactions (KIP-868) span batches, and end or are
aborted. Two orders are left out, because Kafka's brokers and its controllers disagree there:

- a topic that is removed in the batch or transaction that configured it first: brokers keep its configurations;
- a SCRAM credential that is set where others of its mechanism are removed: brokers may lose it.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kwire.protocol.messages import metadata_records as records
from kwire.protocol.messages.metadata_records import encode_metadata_record
from kwire.protocol.schema import schema_of

BROKERS = range(1, 6)
NAMES = ("a", "b", "c", "d", "e")
KEYS = ("retention.ms", "cleanup.policy", "min.insync.replicas")
NO_CHANGE = -2
OLDEST = {
    records.RegisterBrokerRecord: (0, 4),
    records.PartitionRecord: (0, 2),
    records.PartitionChangeRecord: (0, 2),
    records.BrokerRegistrationChangeRecord: (0, 3),
}
"""Version ranges of record types: logs that older software began contain the older versions."""


class World:
    """Contents of a log so far, as far as the next record depends on them."""

    def __init__(self) -> None:
        self.brokers: dict[int, int] = {}
        """Epochs by broker id."""
        self.topics: dict[UUID, tuple[str, int, int]] = {}
        """(name, partition count, replica count) by topic id."""
        self.acls: set[UUID] = set()
        self.configured: dict[str, bool] = {}
        """Topics that this batch or transaction configures; true if the topic certainly has configurations then."""
        self.known_configs: set[str] = set()
        """Topics that certainly have configurations since before this batch or transaction."""


class Draw:
    """Generator of one log."""

    def __init__(self, seed: int) -> None:
        self.random_source = random.Random(f"images {seed}")
        self.world = World()
        self.old_versions = self.random_source.random() < 0.2
        self.before: World | None = None
        """State of the world at the beginning of an open metadata transaction."""
        self.removes_credentials: dict[int, bool] = {}
        """By SCRAM mechanism in this batch or transaction: true if it removes credentials, false if it sets them."""

    def log(self) -> list[list[bytes]]:
        batches = [self.batch() for _ in range(self.random_source.randint(1, 10))]
        if self.before is not None:
            batches.append([self.encode(records.EndTransactionRecord())])
        return batches

    def batch(self) -> list[bytes]:
        """Return one batch. An abort ends its batch, because Kafka's loader expects no record after it."""
        world = self.world
        random_source = self.random_source
        out: list[Any] = []
        if self.before is None:
            sure = {name for name, is_sure in world.configured.items() if is_sure}
            world.known_configs = (world.known_configs - world.configured.keys()) | sure
            world.configured = {}
            self.removes_credentials = {}
        if self.before is None and random_source.random() < 0.15:
            self.before = copy.deepcopy(world)
            out.append(records.BeginTransactionRecord(name=random_source.choice((None, "begin"))))
        for _ in range(random_source.randint(1, 5)):
            out += random_source.choices(*DRAWS)[0](self)
        if self.before is not None and random_source.random() < 0.5:
            if random_source.random() < 0.5:
                out.append(records.EndTransactionRecord())
            else:
                out.append(records.AbortTransactionRecord(reason=random_source.choice((None, "why"))))
                self.world = self.before
            self.before = None
        return [self.encode(record) for record in out or self.no_op()]

    def encode(self, record: Any) -> bytes:
        low, high = OLDEST.get(type(record), (0, schema_of(type(record)).versions.high))
        version = self.random_source.randint(low, high) if self.old_versions else high
        return encode_metadata_record(record, version)

    def uuid(self, bits: int = 128) -> UUID:
        return UUID(int=self.random_source.getrandbits(bits) + 200)

    def some(self, values: Iterable[Any], least: int = 0) -> list[Any]:
        values = list(values)
        return self.random_source.sample(values, self.random_source.randint(min(least, len(values)), len(values)))

    def directories(self, count: int) -> list[UUID]:
        """Return one id for each replica: reserved ids too, and sometimes no ids at all, as before KIP-858."""
        kind = self.random_source.random()
        if kind < 0.1:
            return [UUID(int=0)] * count
        if kind < 0.2:
            return []
        return [self.random_source.choice((UUID(int=0), UUID(int=1), UUID(int=2), UUID(int=300))) for _ in range(count)]

    def endpoints(self, kind: Any) -> list[Any]:
        names = self.some(("PLAINTEXT", "SSL", "CONTROLLER"), least=1)
        return [kind(name=name, host=f"host-{name}", port=self.random_source.randrange(65536)) for name in names]

    def features(self, kind: Any) -> list[Any]:
        names = self.some(("metadata.version", "group.version", "made.up"))
        return [
            kind(name=name, min_supported_version=0, max_supported_version=self.random_source.randint(1, 30))
            for name in names
        ]

    # Topics and partitions

    def make_topic(self) -> list[Any]:
        random_source, world = self.random_source, self.world
        taken = {name for name, _, _ in world.topics.values()}
        free = [name for name in NAMES if name not in taken]
        if not free:
            return []
        name, topic_id = random_source.choice(free), self.uuid()
        partitions, replicas = random_source.randint(1, 3), random_source.randint(1, 3)
        world.topics[topic_id] = (name, partitions, replicas)
        made = [self.partition(topic_id, index, replicas) for index in range(partitions)]
        if random_source.random() < 0.2:
            random_source.shuffle(made)
        return [records.TopicRecord(name=name, topic_id=topic_id), *self.config(name), *made]

    def partition(self, topic_id: UUID, index: int, count: int) -> Any:
        random_source = self.random_source
        replicas = random_source.sample(BROKERS, count)
        eligible: dict[str, Any] = {}
        if not self.old_versions and random_source.random() < 0.3:
            eligible = {"eligible_leader_replicas": self.some(replicas), "last_known_elr": self.some(replicas)}
        directories = [] if self.old_versions else self.directories(count)
        return records.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=self.some(replicas),
            removing_replicas=self.some(replicas) if random_source.random() < 0.2 else [],
            adding_replicas=self.some(replicas) if random_source.random() < 0.2 else [],
            leader=random_source.choice((-1, *replicas)),
            leader_recovery_state=random_source.choice((0, 0, 1)),
            leader_epoch=random_source.randrange(9),
            partition_epoch=random_source.randrange(9),
            directories=directories,
            **eligible,
        )

    def add_partitions(self) -> list[Any]:
        if not self.world.topics:
            return []
        topic_id = self.random_source.choice(list(self.world.topics))
        name, partitions, replicas = self.world.topics[topic_id]
        more = self.random_source.randint(1, 2)
        self.world.topics[topic_id] = (name, partitions + more, replicas)
        return [self.partition(topic_id, partitions + index, replicas) for index in range(more)]

    def change_partition(self) -> list[Any]:
        """Return changes of one topic; each change of the replicas contains directories, as in Kafka."""
        if not self.world.topics:
            return []
        random_source = self.random_source
        topic_id = random_source.choice(list(self.world.topics))
        _, partitions, count = self.world.topics[topic_id]
        fields: dict[str, Any] = {"leader": random_source.choice((NO_CHANGE, NO_CHANGE, -1, 1, 2))}
        if random_source.random() < 0.4:
            fields["isr"] = self.some(BROKERS)
        if random_source.random() < 0.2:
            fields["leader_recovery_state"] = random_source.choice((0, 1))
        for name in ("removing_replicas", "adding_replicas"):
            if random_source.random() < 0.2:
                fields[name] = self.some(BROKERS)
        if not self.old_versions:
            fields |= self.newer_changes(count)
        return [
            records.PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields)
            for index in self.some(range(partitions), least=1)
        ]

    def newer_changes(self, count: int) -> dict[str, Any]:
        random_source = self.random_source
        fields: dict[str, Any] = {}
        if random_source.random() < 0.3:
            fields["replicas"] = random_source.sample(BROKERS, count)
            fields["directories"] = self.directories(count)
        elif random_source.random() < 0.2:
            fields["directories"] = self.directories(count)
        for name in ("eligible_leader_replicas", "last_known_elr"):
            if random_source.random() < 0.3:
                fields[name] = self.some(BROKERS)
        return fields

    def remove_topic(self) -> list[Any]:
        world = self.world
        ids = [topic_id for topic_id, topic in world.topics.items() if topic[0] not in world.configured]
        if not ids:
            return []
        topic_id = self.random_source.choice(ids)
        name, _, _ = world.topics.pop(topic_id)
        world.known_configs.discard(name)
        return [records.RemoveTopicRecord(topic_id=topic_id)]

    def clear_eligible_leaders(self) -> list[Any]:
        names = [name for name, _, _ in self.world.topics.values()]
        return [records.ClearElrRecord(topic_name=self.random_source.choice([*names, ""]))]

    # Configurations, quotas, features

    def config(self, name: str) -> list[Any]:
        values = {key: self.random_source.choice((None, "1", "2")) for key in self.some(KEYS)}
        if values and (name not in self.world.known_configs or None in values.values()):
            self.world.configured[name] = None not in values.values()
        return [
            records.ConfigRecord(resource_type=2, resource_name=name, name=key, value=value)
            for key, value in values.items()
        ]

    def config_of_a_topic(self) -> list[Any]:
        names = [name for name, _, _ in self.world.topics.values()]
        return self.config(self.random_source.choice(names)) if names else []

    def other_config(self) -> list[Any]:
        kind, name = self.random_source.choice(((4, ""), (4, "1"), (16, "metrics"), (32, "group")))
        value = self.random_source.choice((None, "1", "2", ""))
        return [
            records.ConfigRecord(
                resource_type=kind, resource_name=name, name=self.random_source.choice(KEYS), value=value
            )
        ]

    def quota(self) -> list[Any]:
        kinds = self.some(("user", "client-id", "ip"), least=1)
        entity = [
            records.ClientQuotaEntityData(entity_type=kind, entity_name=self.random_source.choice((None, "x", "y")))
            for kind in kinds
        ]
        key = self.random_source.choice(("producer_byte_rate", "request_percentage"))
        value = self.random_source.choice((0.0, 1.5, 1e9))
        return [
            records.ClientQuotaRecord(entity=entity, key=key, value=value, remove=self.random_source.random() < 0.4)
        ]

    def feature(self) -> list[Any]:
        name, levels = self.random_source.choice(FEATURES)
        return [records.FeatureLevelRecord(name=name, feature_level=self.random_source.choice(levels))]

    def producer_ids(self) -> list[Any]:
        return [
            records.ProducerIdsRecord(
                broker_id=1, broker_epoch=1, next_producer_id=self.random_source.randint(1, 9) * 1000
            )
        ]

    # Nodes

    def register_broker(self) -> list[Any]:
        random_source = self.random_source
        broker_id, epoch = random_source.choice(BROKERS), random_source.randrange(100)
        self.world.brokers[broker_id] = epoch
        newer: dict[str, Any] = {}
        if not self.old_versions:
            newer = {"log_dirs": [self.uuid(8) for _ in range(random_source.randrange(3))]}
            newer["cordoned_log_dirs"] = random_source.choice((None, [], self.some(newer["log_dirs"])))
            newer["in_controlled_shutdown"] = random_source.random() < 0.2
        return [
            records.RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=self.uuid(),
                broker_epoch=epoch,
                end_points=self.endpoints(records.BrokerEndpoint),
                features=self.features(records.BrokerFeature),
                rack=random_source.choice((None, "", "rack")),
                fenced=random_source.random() < 0.5,
                **newer,
            )
        ]

    def change_broker(self) -> list[Any]:
        if not self.world.brokers:
            return []
        random_source = self.random_source
        broker_id, epoch = random_source.choice(list(self.world.brokers.items()))
        kind = random_source.randrange(6)
        if kind == 0:
            return [records.FenceBrokerRecord(id=broker_id, epoch=epoch)]
        if kind == 1:
            return [records.UnfenceBrokerRecord(id=broker_id, epoch=epoch)]
        newer: dict[str, Any] = {}
        if not self.old_versions:
            newer = {"log_dirs": [self.uuid(8) for _ in range(random_source.randrange(3))]}
            newer["cordoned_log_dirs"] = random_source.choice((None, [], [self.uuid(8)]))
            newer["in_controlled_shutdown"] = random_source.choice((0, 0, 1))
        return [
            records.BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=epoch, fenced=random_source.choice((-1, 0, 1)), **newer
            )
        ]

    def unregister_broker(self) -> list[Any]:
        broker_id = self.random_source.choice(BROKERS)
        epoch = self.world.brokers.pop(broker_id, 3)
        return [records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)]

    def register_controller(self) -> list[Any]:
        return [
            records.RegisterControllerRecord(
                controller_id=self.random_source.choice((1, 2, 3000)),
                incarnation_id=self.uuid(),
                zk_migration_ready=self.random_source.random() < 0.2,
                end_points=self.endpoints(records.ControllerEndpoint),
                features=self.features(records.ControllerFeature),
            )
        ]

    # Credentials and permissions

    def scram(self) -> list[Any]:
        name, mechanism = self.random_source.choice(("x", "y", "")), self.random_source.choice((1, 2))
        if self.removes_credentials.setdefault(mechanism, self.random_source.random() < 0.4):
            return [records.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)]
        secrets = {key: self.random_source.randbytes(8) for key in ("salt", "stored_key", "server_key")}
        iterations = self.random_source.choice((4096, 8192))
        return [records.UserScramCredentialRecord(name=name, mechanism=mechanism, iterations=iterations, **secrets)]

    def acl(self) -> list[Any]:
        if self.world.acls and self.random_source.random() < 0.4:
            gone = self.random_source.choice(sorted(self.world.acls))
            self.world.acls.remove(gone)
            return [records.RemoveAccessControlEntryRecord(id=gone)]
        entry = records.AccessControlEntryRecord(
            id=self.uuid(),
            resource_type=self.random_source.randint(2, 6),
            resource_name=self.random_source.choice(("*", "a", "")),
            pattern_type=self.random_source.choice((3, 4)),
            principal="User:x",
            host=self.random_source.choice(("*", "h")),
            operation=self.random_source.randint(2, 12),
            permission_type=self.random_source.choice((2, 3)),
        )
        self.world.acls.add(entry.id)
        return [entry]

    def delegation_token(self) -> list[Any]:
        token_id = self.random_source.choice(("t", "u", "v"))
        if self.random_source.random() < 0.4:
            return [records.RemoveDelegationTokenRecord(token_id=token_id)]
        return [
            records.DelegationTokenRecord(
                owner="User:x",
                requester=self.random_source.choice(("User:x", "User:y")),
                renewers=[f"User:{name}" for name in self.some("abc")],
                issue_timestamp=self.random_source.randrange(1000),
                max_timestamp=self.random_source.randrange(1000),
                expiration_timestamp=self.random_source.randrange(1000),
                token_id=token_id,
            )
        ]

    def no_op(self) -> list[Any]:
        return [records.NoOpRecord()]


FEATURES = (
    ("metadata.version", (25, 26, 28, 30)),
    ("transaction.version", (0, 1, 2)),
    ("eligible.leader.replicas.version", (0, 1)),
    ("group.version", (0, 1)),
    ("share.version", (0, 1)),
    ("streams.version", (0, 1)),
)
DRAWS = (
    (
        Draw.make_topic,
        Draw.change_partition,
        Draw.remove_topic,
        Draw.config_of_a_topic,
        Draw.register_broker,
        Draw.change_broker,
        Draw.add_partitions,
        Draw.clear_eligible_leaders,
        Draw.other_config,
        Draw.quota,
        Draw.feature,
        Draw.producer_ids,
        Draw.unregister_broker,
        Draw.register_controller,
        Draw.scram,
        Draw.acl,
        Draw.delegation_token,
        Draw.no_op,
    ),
    (8, 8, 4, 4, 4, 4, 2, 2, 2, 3, 2, 1, 1, 1, 3, 3, 3, 1),
)
"""Possible next records, each repeated by its frequency."""
