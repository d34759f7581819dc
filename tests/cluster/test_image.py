"""Metadata image: the effect of each record on it."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.metadata.image import MetadataImage, UnknownRecord
from kwire.cluster.metadata.registrations import Endpoint
from kwire.cluster.metadata.scram import ScramCredential
from kwire.protocol.messages import metadata_records as records

A, B = UUID(int=1), UUID(int=2)
EMPTY = MetadataImage()


def after(*batch: Any, base: MetadataImage = EMPTY) -> MetadataImage:
    return base.apply(batch, offset=base.offset + len(batch), epoch=5)


def registration(broker_id: int = 1, **changes: Any) -> records.RegisterBrokerRecord:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "broker_epoch": 7,
        "incarnation_id": A,
        "end_points": [records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        "rack": "r",
        "fenced": True,
        "log_dirs": [B],
    }
    return records.RegisterBrokerRecord(**(fields | changes))


def partition(index: int = 0, **changes: Any) -> records.PartitionRecord:
    fields: dict[str, Any] = {
        "partition_id": index,
        "topic_id": A,
        "replicas": [1, 2],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 3,
        "partition_epoch": 4,
        "directories": [B, B],
    }
    return records.PartitionRecord(**(fields | changes))


TOPIC = records.TopicRecord(name="t", topic_id=A)


def test_offset_and_epoch_follow_the_log() -> None:
    image = after(records.NoOpRecord(), records.NoOpRecord())
    assert (image.offset, image.epoch) == (1, 5)


def test_a_topic_with_its_partitions() -> None:
    image = after(TOPIC, partition(0), partition(1, leader=-1))
    topic = image.topics["t"]
    assert image.topic_by_id(A) is topic
    assert image.topic_names == {A: "t"}
    assert [each.leader for each in topic.partitions] == [1, -1]
    first = topic.partitions[0]
    assert (first.replicas, first.isr, first.leader_epoch, first.partition_epoch) == ((1, 2), (1,), 3, 4)
    assert first.directories == (B, B)


def test_an_image_never_changes() -> None:
    before = after(TOPIC, partition())
    changed = after(partition(1), records.RemoveTopicRecord(topic_id=A), base=before)
    assert changed.topics == {}
    assert len(before.topics["t"].partitions) == 1
    assert before.topic_by_id(A) is not None


def test_maps_that_did_not_change_are_shared() -> None:
    before = after(TOPIC, partition())
    changed = after(records.NoOpRecord(), base=before)
    assert changed.topics is before.topics
    assert changed.configs is before.configs


def test_a_change_of_leader_raises_both_epochs() -> None:
    base = after(TOPIC, partition())
    change = records.PartitionChangeRecord(partition_id=0, topic_id=A, leader=2, isr=[2])
    changed = after(change, base=base).topics["t"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch, changed.isr) == (2, 4, 5, (2,))


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    base = after(TOPIC, partition())
    change = records.PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1, 2], eligible_leader_replicas=[3])
    changed = after(change, base=base).topics["t"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 3, 5)
    assert (changed.isr, changed.eligible_leader_replicas) == ((1, 2), (3,))


@pytest.mark.parametrize("name", ["t", ""])
def test_eligible_leaders_are_forgotten(name: str) -> None:
    other = records.TopicRecord(name="other", topic_id=B)
    eligible = {"eligible_leader_replicas": [2], "last_known_elr": [1]}
    image = after(TOPIC, other, partition(0, **eligible), partition(1), partition(0, topic_id=B, **eligible))
    changed = after(records.ClearElrRecord(topic_name=name), base=image)
    first, second = changed.topics["t"].partitions
    assert (first.eligible_leader_replicas, first.last_known_elr, first.partition_epoch) == ((), (), 5)
    assert second is image.topics["t"].partitions[1]
    assert changed.topics["other"].partitions[0].eligible_leader_replicas == ((2,) if name else ())


def test_a_removed_topic_may_come_back_with_another_id() -> None:
    image = after(TOPIC, partition(), records.RemoveTopicRecord(topic_id=A), records.TopicRecord(name="t", topic_id=B))
    assert image.topics["t"].topic_id == B
    assert image.topic_by_id(A) is None


def test_topics_are_indexed_by_their_collision_key() -> None:
    names = {"a.b": UUID(int=11), "a_b": UUID(int=12), "plain": UUID(int=13)}
    image = after(*(records.TopicRecord(name=name, topic_id=topic_id) for name, topic_id in names.items()))
    assert dict(image.topics_by_collision_key) == {"a_b": ("a.b", "a_b")}
    image = after(records.RemoveTopicRecord(topic_id=names["a.b"]), base=image)
    assert dict(image.topics_by_collision_key) == {"a_b": ("a_b",)}
    image = after(*(records.RemoveTopicRecord(topic_id=names[name]) for name in ("a_b", "plain")), base=image)
    assert not image.topics_by_collision_key


def test_configs_are_set_and_taken_away() -> None:
    def config(name: str, value: str | None) -> records.ConfigRecord:
        return records.ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)

    image = after(config("a", "1"), config("b", "2"), config("a", "3"))
    assert image.config_of(2, "t") == {"a": "3", "b": "2"}
    image = after(config("a", None), base=image)
    assert image.config_of(2, "t") == {"b": "2"}
    image = after(config("b", None), config("missing", None), base=image)
    assert image.configs == {}
    assert image.config_of(2, "t") == {}


def test_a_deleted_topic_takes_its_configs_with_it() -> None:
    """Kafka's controller writes only a RemoveTopicRecord."""
    config = records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000")
    other = records.ConfigRecord(resource_type=4, resource_name="t", name="retention.ms", value="2000")
    gone = records.RemoveTopicRecord(topic_id=A)
    before = after(TOPIC, config, other)
    assert after(gone, base=before).configs == {(4, "t"): {"retention.ms": "2000"}}
    assert after(TOPIC, config, gone).configs == {}
    again = after(gone, records.TopicRecord(name="t", topic_id=B), config, base=before)
    assert again.config_of(2, "t") == {"retention.ms": "1000"}


def test_removing_a_topic_without_configs_shares_those_of_the_others() -> None:
    before = after(TOPIC, records.ConfigRecord(resource_type=4, resource_name="1", name="a", value="1"))
    assert after(records.RemoveTopicRecord(topic_id=A), base=before).configs is before.configs


def test_partitions_come_in_any_order() -> None:
    image = after(TOPIC, partition(1, leader=2), partition(0, leader=1))
    assert [each.leader for each in image.topics["t"].partitions] == [1, 2]


def test_replicas_without_directory_ids_are_migrating() -> None:
    image = after(TOPIC, partition(directories=[]))
    assert image.topics["t"].partitions[0].directories == (UUID(int=0),) * 2
    change = records.PartitionChangeRecord(partition_id=0, topic_id=A, replicas=[1, 2, 3])
    assert after(change, base=image).topics["t"].partitions[0].directories == (UUID(int=0),) * 3


def test_many_configs_of_one_resource_are_soon_applied() -> None:
    batch = [
        records.ConfigRecord(resource_type=4, resource_name="1", name=f"plug.in.{index}", value="x")
        for index in range(20_000)
    ]
    began = time.monotonic()
    image = after(*batch)
    assert time.monotonic() - began < 3, "one copy of the configurations for a batch, not one for each record"
    assert len(image.config_of(4, "1")) == 20_000


def credential(user: str, mechanism: int, **changes: Any) -> records.UserScramCredentialRecord:
    fields: dict[str, Any] = {"salt": b"salt", "stored_key": b"stored", "server_key": b"served", "iterations": 4096}
    return records.UserScramCredentialRecord(name=user, mechanism=mechanism, **(fields | changes))


def test_scram_credentials_come_change_and_go_by_user_and_mechanism() -> None:
    first = after(credential("a", 1), credential("a", 2, salt=b"other"), credential("b", 1))
    assert {user: list(each) for user, each in first.scram.items()} == {"a": [1, 2], "b": [1]}
    kept = ScramCredential(salt=b"other", stored_key=b"stored", server_key=b"served", iterations=4096)
    assert first.scram["a"][2] == kept
    gone = records.RemoveUserScramCredentialRecord
    second = after(credential("a", 1, iterations=9000), gone(name="b", mechanism=1), base=first)
    assert {user: list(each) for user, each in second.scram.items()} == {"a": [1, 2]}
    assert second.scram["a"][1].iterations == 9000
    assert first.scram["a"][1].iterations == 4096, "an image never changes"
    third = after(
        gone(name="a", mechanism=2), gone(name="a", mechanism=1), gone(name="never", mechanism=1), base=second
    )
    assert third.scram == {}


def test_the_keys_of_a_credential_are_in_no_repr() -> None:
    record = credential("a", 1)
    hidden = "salt=..., stored_key=..., server_key=..."
    assert repr(record) == f"UserScramCredentialRecord(name='a', mechanism=1, {hidden}, iterations=4096)"
    image = after(record)
    assert repr(image.scram["a"][1]) == "ScramCredential(iterations=4096)"
    assert not any(word in repr(image) for word in ("salt", "stored", "served"))


def test_feature_levels_are_set_and_removed() -> None:
    def level(number: int) -> records.FeatureLevelRecord:
        return records.FeatureLevelRecord(name="transaction.version", feature_level=number)

    image = after(level(2))
    assert image.features == {"transaction.version": 2}
    assert after(level(0), base=image).features == {}


@pytest.mark.parametrize(
    ("name", "level"), [("transaction.version", 3), ("metadata.version", 24), ("metadata.version", 31), ("new", 1)]
)
def test_a_level_that_is_not_supported_is_never_taken(name: str, level: int) -> None:
    with pytest.raises(UnknownRecord, match=f"{name} is at level {level}"):
        after(records.FeatureLevelRecord(name=name, feature_level=level))


def test_a_broker_registers_unfences_and_goes() -> None:
    image = after(registration())
    broker = image.brokers[1]
    assert broker.endpoints == (Endpoint(name="PLAINTEXT", host="h", port=9),)
    assert (broker.fenced, broker.rack, broker.broker_epoch, broker.directories) == (True, "r", 7, (B,))
    change = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1, log_dirs=[A])
    image = after(change, base=image)
    assert (image.brokers[1].fenced, image.brokers[1].directories) == (False, (A,))
    down = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1)
    image = after(down, base=image)
    assert (image.brokers[1].fenced, image.brokers[1].in_controlled_shutdown) == (False, True)
    assert after(records.UnregisterBrokerRecord(broker_id=1, broker_epoch=7), base=image).brokers == {}


def test_the_old_fencing_records() -> None:
    image = after(registration(), records.UnfenceBrokerRecord(id=1, epoch=7))
    assert not image.brokers[1].fenced
    assert after(records.FenceBrokerRecord(id=1, epoch=7), base=image).brokers[1].fenced


def test_controllers_and_producer_ids() -> None:
    end = records.ControllerEndpoint(name="CONTROLLER", host="h", port=1, security_protocol=0)
    image = after(
        records.RegisterControllerRecord(controller_id=4, end_points=[end]),
        records.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=2000),
    )
    assert image.controllers[4].endpoints == (Endpoint(name="CONTROLLER", host="h", port=1),)
    assert image.next_producer_id == 2000


def test_an_unknown_record_is_rejected_and_changes_nothing() -> None:
    with pytest.raises(UnknownRecord, match="object"):
        after(TOPIC, object())
    assert EMPTY.topics == {}


def test_a_partition_that_leaves_a_gap_is_rejected() -> None:
    with pytest.raises(AssertionError, match="2 partitions with a gap"):
        after(TOPIC, partition(0), partition(2))


def test_a_partition_of_no_topic_is_rejected() -> None:
    with pytest.raises(AssertionError, match="unknown topic id"):
        after(partition(0))
