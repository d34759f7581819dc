"""Kafka's own tools read the metadata log and snapshots of a cluster with many kinds of metadata changes."""

import signal

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.cluster.metadata_files import dumped, shell
from compat_tests.cluster.placing import create_spread
from compat_tests.confluent_kafka_client import transactional as confluent
from compat_tests.confluent_kafka_client.client import admin, result
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import RawClient

TOPICS = 12
QUOTAS = 10
RECORDS = {
    "BEGIN_TRANSACTION_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "CLIENT_QUOTA_RECORD",
    "CONFIG_RECORD",
    "END_TRANSACTION_RECORD",
    "FEATURE_LEVEL_RECORD",
    "PARTITION_CHANGE_RECORD",
    "PARTITION_RECORD",
    "PRODUCER_IDS_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "REMOVE_TOPIC_RECORD",
    "TOPIC_RECORD",
    "UNREGISTER_BROKER_RECORD",
}


@pytest.fixture
def cluster(tested, alive, tmp_path):
    alive.end()
    often = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    made = Cluster(tested, tmp_path, SHAPES["separate"], **often)
    try:
        made.start()
        yield made
    finally:
        made.end()


def test_kafkas_tools_read_the_metadata_log_and_snapshots(cluster):
    topics = live(cluster)
    controller = cluster[1]
    eventually(lambda: len(snapshots(controller)) > 1, "a snapshot")
    for node in reversed(cluster.nodes):  # brokers stop first, because their controlled shutdown needs the controller
        node.end(signal.SIGTERM)
    newest = snapshots(controller)[-1]
    control, records = dumped([newest])
    assert control == {"SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters"}
    named = {data["name"] for kind, data in records if kind == "TOPIC_RECORD"}
    assert len(named & topics) > TOPICS // 2
    assert sorted(set(shell(newest, "ls", "/image"))) == sorted(IMAGE)
    eventually(lambda: named <= set(listed(newest, "/image/topics/byName")), "the shell has read all", 60)
    segments = sorted(controller.metadata.glob("*.log"))
    control, records = dumped(segments)
    assert control == {"LeaderChange", "KRaftVersion", "KRaftVoters"}
    kinds = {kind for kind, _ in records}
    assert kinds >= RECORDS
    assert topics <= {data["name"] for kind, data in records if kind == "TOPIC_RECORD"}
    eventually(lambda: topics <= set(listed(segments[0], "/image/topics/byName")), "the shell has read the log", 60)
    eventually(lambda: listed(newest, "/image/cluster/controllers") == ["1"], "the shell knows the controller", 60)


IMAGE = (
    "acls",
    "clientQuotas",
    "cluster",
    "configs",
    "delegationToken",
    "features",
    "producerIds",
    "provenance",
    "scram",
    "topics",
)


def listed(path, directory):
    return [name for line in shell(path, "ls", directory) for name in line.split()]


def snapshots(node):
    return sorted(node.metadata.glob("*.checkpoint"))


def live(cluster):
    """Cause every kind of metadata record that a cluster writes; return the topics that remain."""
    bootstrap = cluster[2].bootstrap
    names = {f"topic-{number}" for number in range(TOPICS)}
    for name in sorted(names):
        create_spread(cluster, name)
    asking = admin(bootstrap)
    result(asking.delete_topics(["topic-0"]))
    transactional = confluent.transactional(bootstrap, "id")
    transactional.begin_transaction()
    transactional.commit_transaction(30)
    with RawClient(bootstrap) as client:
        change_features(client)
        change_configs(client)
        change_quotas(client)
        move(client, "topic-1")
    cluster[3].end(signal.SIGTERM)
    cluster.await_brokers(without={3})
    cluster[3].start()
    cluster.await_brokers()
    cluster[3].end(signal.SIGKILL)
    cluster.await_brokers(without={3})
    with RawClient(bootstrap) as client:
        assert client.ask(UnregisterBrokerRequest(broker_id=3), 0).error_code == 0
    return names - {"topic-0"}


def change_features(client):
    for level, kind in ((1, 2), (2, 1)):
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
        assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == 0


def change_configs(client):
    """Set and delete configurations of a topic, all brokers, one broker, a group and client metrics."""
    wishes = [
        (2, "topic-2", "retention.ms", "99"),
        (4, "", "log.retention.ms", "888888"),
        (4, "2", "log.cleaner.threads", "2"),
        (32, "group", "consumer.session.timeout.ms", "50000"),
        (16, "metrics", "interval.ms", "1000"),
    ]
    for operation in (0, 1):
        resources = [
            IncrementalAlterConfigsAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)],
            )
            for kind, name, key, value in wishes
        ]
        answer = client.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
        assert [each.error_code for each in answer.responses] == [0] * len(wishes)


def change_quotas(client):
    for number in range(QUOTAS):
        entity = [AlterClientQuotasEntity(entity_type="user", entity_name=f"user-{number}")]
        requested = AlterClientQuotasOperation(key="producer_byte_rate", value=1000.0 + number, remove=number % 3 == 0)
        entry = AlterClientQuotasEntry(entity=entity, ops=[requested])
        assert client.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0


def move(client, topic):
    """Begin to move a partition, and cancel the move."""
    for replicas in ([3], None):
        wanted = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[wanted])])
        answer = client.ask(request, 0)
        assert answer.error_code == 0
        # An empty partition may have moved already: then there is no reassignment to cancel.
        assert answer.responses[0].partitions[0].error_code in ({0} if replicas else {0, 85})
