"""Attacks with requests about topics, configurations, brokers and security."""

import uuid
import zlib

from compat_tests.starvation.attack import MANY, SECURITY, SMALL, SOME, TIMEOUT_MS, UNKNOWN, Attack, most_of
from compat_tests.starvation.scene import FIRST
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.protocol.messages.alter_configs import AlterConfigsAlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsUserName,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NEW_TOPICS = 9_900
"""kwire limits a request to fewer than 10,000 new partitions."""
TOPIC, BROKER = 2, 4
"""Types of configuration resources."""
SET = 0
ANY = 1
READ, ALLOW = 3, 3
NO_SUCH_ID = 999
LARGE_BYTES = 1_000_000
ID = uuid.UUID(int=7)
DIRECTORY = "/no/such/directory"
KEYS = ("retention.ms", "segment.bytes", "max.message.bytes")


def metadata_all(scene):
    return [(MetadataRequest(topics=None), 12)]


def metadata_many(scene):
    topics = [MetadataRequestTopic(name=name) for name in UNKNOWN]
    return [(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)]


def topic_partitions_all(scene):
    topics = [DescribeTopicPartitionsTopicRequest(name=name) for name in scene.topics]
    return [(DescribeTopicPartitionsRequest(topics=topics), 0)]


def topic_partitions_many(scene):
    topics = [DescribeTopicPartitionsTopicRequest(name=name) for name in UNKNOWN]
    return [(DescribeTopicPartitionsRequest(topics=topics), 0)]


def new_topic(name, partitions=1):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="100000")],
    )


def create_topics(scene):
    topics = [new_topic(name) for name in UNKNOWN[:NEW_TOPICS]]
    return [(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True), 7)]


def delete_topics(scene):
    topics = [DeleteTopicState(name=name) for name in UNKNOWN]
    return [(DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 6)]


def create_and_delete_topics(scene):
    """Return creations and deletions of topics: each deletion removes the topic's offsets from all groups."""
    names = [f"comes-and-goes-{number}" for number in range(10)]
    created = CreateTopicsRequest(topics=[new_topic(name) for name in names], timeout_ms=TIMEOUT_MS)
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=TIMEOUT_MS)
    return [(created, 7), (deleted, 6)]


def create_partitions(names):
    topics = [CreatePartitionsTopic(name=name, count=5, assignments=None) for name in names]
    return [(CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True), 3)]


def create_partitions_all(scene):
    return create_partitions(scene.topics)


def create_partitions_many(scene):
    return create_partitions(UNKNOWN)


def described(resource_type, name):
    return DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)


def describe_configs(resources):
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    return [(request, 4)]


def describe_configs_all(scene):
    return describe_configs([described(BROKER, "1"), *(described(TOPIC, name) for name in scene.topics)])


def describe_configs_many(scene):
    return describe_configs([described(TOPIC, name) for name in UNKNOWN])


def alter_configs(names):
    configs = [AlterConfigsAlterableConfig(name=key, value="10000000") for key in KEYS[:2]]
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs) for name in names]
    return [(AlterConfigsRequest(resources=resources, validate_only=True), 2)]


def alter_configs_all(scene):
    return alter_configs(scene.topics)


def alter_configs_many(scene):
    return alter_configs(UNKNOWN[:SOME])


def incremental_alter_configs(names):
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=key, config_operation=SET, value="10000000") for key in KEYS[:2]
    ]
    resources = [
        IncrementalAlterConfigsAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        for name in names
    ]
    return [(IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1)]


def incremental_alter_configs_all(scene):
    return incremental_alter_configs(scene.topics)


def incremental_alter_configs_many(scene):
    return incremental_alter_configs(UNKNOWN[:SOME])


def list_config_resources(scene):
    return [(ListConfigResourcesRequest(resource_types=[]), 1)]


def log_dirs_all(scene):
    return [(DescribeLogDirsRequest(topics=None), 4)]


def log_dirs_many(scene):
    topics = [DescribableLogDirTopic(topic=FIRST, partitions=list(range(MANY)))]
    return [(DescribeLogDirsRequest(topics=topics), 4)]


def replica_log_dirs(scene):
    topics = [AlterReplicaLogDirTopic(name=FIRST, partitions=list(range(MANY)))]
    return [(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=DIRECTORY, topics=topics)]), 2)]


def elect_all(scene):
    return [(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS), 2)]


def elect_many(scene):
    asked = [ElectLeadersTopicPartitions(topic=FIRST, partitions=list(range(MANY)))]
    return [(ElectLeadersRequest(election_type=0, topic_partitions=asked, timeout_ms=TIMEOUT_MS), 2)]


def alter_reassignments(scene):
    """Return a request to cancel reassignments that do not exist."""
    partitions = [ReassignablePartition(partition_index=index, replicas=None) for index in range(MANY)]
    topics = [ReassignableTopic(name=FIRST, partitions=partitions)]
    return [(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 0)]


def list_reassignments(scene):
    topics = [ListPartitionReassignmentsTopics(name=FIRST, partition_indexes=list(range(MANY)))]
    return [(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 0)]


def describe_client_quotas(scene):
    return [(DescribeClientQuotasRequest(components=[], strict=False), 1)]


def alter_client_quotas(scene):
    entries = [
        AlterClientQuotasEntry(
            entity=[AlterClientQuotasEntity(entity_type="client-id", entity_name=name)],
            ops=[AlterClientQuotasOperation(key="producer_byte_rate", value=1e9, remove=False)],
        )
        for name in UNKNOWN[:SOME]
    ]
    return [(AlterClientQuotasRequest(entries=entries, validate_only=True), 1)]


def describe_scram(scene):
    users = [DescribeUserScramCredentialsUserName(name=name) for name in UNKNOWN]
    return [(DescribeUserScramCredentialsRequest(users=users), 0)]


def delete_scram(scene):
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in UNKNOWN]
    return [(AlterUserScramCredentialsRequest(deletions=deletions), 0)]


def describe_quorum(scene):
    count = most_of(DescribeQuorumRequest)
    partitions = [DescribeQuorumRequestPartitionData(partition_index=index) for index in range(count)]
    topics = [DescribeQuorumRequestTopicData(topic_name=FIRST, partitions=partitions)]
    return [(DescribeQuorumRequest(topics=topics), 2)]


def update_features(scene):
    names = UNKNOWN[: most_of(UpdateFeaturesRequest)]
    updates = [FeatureUpdateKey(feature=name, max_version_level=1) for name in names]
    return [(UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=updates, validate_only=True), 1)]


def describe_cluster(scene):
    return [(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)]


def unregister_broker(scene):
    return [(UnregisterBrokerRequest(broker_id=NO_SUCH_ID), 0)]


def add_voter(scene):
    listeners = [AddRaftVoterListener(name=name, host="host", port=1) for name in UNKNOWN]
    request = AddRaftVoterRequest(
        cluster_id="another", timeout_ms=TIMEOUT_MS, voter_id=NO_SUCH_ID, voter_directory_id=ID, listeners=listeners
    )
    return [(request, 0)]


def remove_voter(scene):
    return [(RemoveRaftVoterRequest(cluster_id="another", voter_id=NO_SUCH_ID, voter_directory_id=ID), 0)]


def api_versions(scene):
    return [(ApiVersionsRequest(client_software_name="attacker", client_software_version="1"), 3)]


def get_telemetry(scene):
    return [(GetTelemetrySubscriptionsRequest(client_instance_id=ID), 0)]


def push_telemetry(scene):
    """Return metrics that decompress to a hundred times their size."""
    metrics = zlib.compress(bytes(50 * LARGE_BYTES), wbits=31)
    request = PushTelemetryRequest(client_instance_id=ID, subscription_id=0, compression_type=1, metrics=metrics)
    return [(request, 0)]


def describe_acls(scene):
    return [(DescribeAclsRequest(resource_type_filter=ANY, operation=ANY, permission_type=ANY), 3)]


def create_acls(scene):
    creations = [
        AclCreation(
            resource_type=TOPIC, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3
        )
        for name in UNKNOWN
    ]
    return [(CreateAclsRequest(creations=creations), 3)]


def delete_acls(scene):
    filters = [
        DeleteAclsFilter(resource_type_filter=TOPIC, resource_name_filter=name, operation=ANY, permission_type=ANY)
        for name in UNKNOWN
    ]
    return [(DeleteAclsRequest(filters=filters), 3)]


def create_token(scene):
    renewers = [CreatableRenewers(principal_type="User", principal_name=name) for name in UNKNOWN]
    return [(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=1000), 2)]


def renew_token(scene):
    return [(RenewDelegationTokenRequest(hmac=bytes(LARGE_BYTES), renew_period_ms=1), 2)]


def expire_token(scene):
    return [(ExpireDelegationTokenRequest(hmac=bytes(LARGE_BYTES), expiry_time_period_ms=1), 2)]


def describe_tokens(scene):
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in UNKNOWN]
    return [(DescribeDelegationTokenRequest(owners=owners), 3)]


def sasl_handshake(scene):
    return [(SaslHandshakeRequest(mechanism="m" * 30_000), 1)]


def sasl_authenticate(scene):
    return [(SaslAuthenticateRequest(auth_bytes=bytes(LARGE_BYTES)), 2)]


ATTACKS = (
    Attack("Metadata, all topics", metadata_all, is_short=True),
    Attack("Metadata, many unknown topics", metadata_many),
    Attack("DescribeTopicPartitions, all topics", topic_partitions_all),
    Attack("DescribeTopicPartitions, many unknown topics", topic_partitions_many),
    Attack("CreateTopics, validated", create_topics, is_short=True),
    Attack("DeleteTopics, many unknown topics", delete_topics),
    Attack("CreateTopics and DeleteTopics", create_and_delete_topics, is_short=True),
    Attack("CreatePartitions, all topics, validated", create_partitions_all),
    Attack("CreatePartitions, many unknown topics", create_partitions_many),
    Attack("DescribeConfigs, all topics", describe_configs_all, is_short=True),
    Attack("DescribeConfigs, many unknown topics", describe_configs_many),
    Attack("AlterConfigs, all topics, validated", alter_configs_all),
    Attack("AlterConfigs, many unknown topics", alter_configs_many),
    Attack("IncrementalAlterConfigs, all topics, validated", incremental_alter_configs_all),
    Attack("IncrementalAlterConfigs, many unknown topics", incremental_alter_configs_many),
    Attack("ListConfigResources", list_config_resources),
    Attack("DescribeLogDirs, all topics", log_dirs_all, is_short=True),
    Attack("DescribeLogDirs, many partitions", log_dirs_many),
    Attack("AlterReplicaLogDirs, many partitions", replica_log_dirs),
    Attack("ElectLeaders, all partitions", elect_all),
    Attack("ElectLeaders, many partitions", elect_many),
    Attack("AlterPartitionReassignments, many partitions", alter_reassignments),
    Attack("ListPartitionReassignments, many partitions", list_reassignments),
    Attack("DescribeClientQuotas", describe_client_quotas, together=SMALL),
    Attack("AlterClientQuotas, validated", alter_client_quotas),
    Attack("DescribeUserScramCredentials, many users", describe_scram, together=SECURITY),
    Attack("AlterUserScramCredentials, unknown users", delete_scram, together=SECURITY),
    Attack("DescribeQuorum, many partitions", describe_quorum),
    Attack("UpdateFeatures, many features", update_features),
    Attack("DescribeCluster", describe_cluster, together=SMALL),
    Attack("UnregisterBroker, unknown", unregister_broker, together=SMALL),
    Attack("AddRaftVoter, many listeners", add_voter),
    Attack("RemoveRaftVoter, unknown", remove_voter, together=SMALL),
    Attack("ApiVersions", api_versions, together=SMALL),
    Attack("GetTelemetrySubscriptions", get_telemetry, together=SMALL),
    Attack("PushTelemetry, compressed", push_telemetry),
    Attack("DescribeAcls", describe_acls, together=SMALL),
    Attack("CreateAcls, many", create_acls, together=SECURITY),
    Attack("DeleteAcls, many filters", delete_acls, together=SECURITY),
    Attack("CreateDelegationToken, many renewers", create_token, together=SECURITY),
    Attack("RenewDelegationToken, long", renew_token, together=SECURITY),
    Attack("ExpireDelegationToken, long", expire_token, together=SECURITY),
    Attack("DescribeDelegationToken, many owners", describe_tokens, together=SECURITY),
    Attack("SaslHandshake, long", sasl_handshake, together=SECURITY),
    Attack("SaslAuthenticate, long", sasl_authenticate, together=SECURITY),
)
