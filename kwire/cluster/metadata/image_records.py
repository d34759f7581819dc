"""Records that rebuild an image: the contents of a snapshot of the metadata log (KIP-630).

They are in Kafka's order, in which each record refers only to earlier ones: features, brokers and controllers, topics
with their partitions, configurations, quotas, the next producer id, SCRAM credentials, access control entries,
delegation tokens. Kafka writes the access control entries before the credentials; neither refers to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kwire.cluster.metadata.acl_records import acl_record
from kwire.cluster.metadata.features import METADATA_VERSION
from kwire.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.metadata.registrations import BrokerRegistration, ControllerRegistration
from kwire.cluster.metadata.scram import credential_record
from kwire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaEntityData,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)


def records_of(image: MetadataImage) -> Iterator[Any]:
    """Yield records that, applied to an empty image, produce this image except for its offset and epoch."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.values():
        yield from _topic(topic)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for entity, quotas in image.client_quotas.items():
        for key, quota in quotas.items():
            parts = [ClientQuotaEntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield ClientQuotaRecord(entity=parts, key=key, value=quota)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for user, credentials in image.scram.items():
        for mechanism, credential in credentials.items():
            yield credential_record(user, mechanism, credential)
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)
    yield from image.delegation_tokens.values()


def _broker(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _controller(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            ControllerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in controller.features
        ],
    )


def _topic(topic: TopicImage) -> Iterator[Any]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in enumerate(topic.partitions):
        yield _partition(topic, index, partition)


def _partition(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
