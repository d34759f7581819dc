"""Placement in a cluster: leaders of partitions, coordinators of groups and transactional ids."""

from confluent_kafka.admin import AdminClient

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.raw_client import RawClient

GROUP, TRANSACTION = 0, 1


def create_spread(cluster, topic):
    """Create a topic with partition 0 on the first broker, 1 on the next, and so on; wait until all brokers have it."""
    ids = [node.node_id for node in cluster.brokers]
    assignments = [CreatableReplicaAssignment(partition_index=at, broker_ids=[each]) for at, each in enumerate(ids)]
    wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments)
    with RawClient(cluster.brokers[0].bootstrap) as client:
        [made] = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7).topics
    assert made.error_code == 0, made
    for node in cluster.brokers:
        eventually(lambda node=node: leaders(node.bootstrap, topic) == dict(enumerate(ids)), "it is known everywhere")


def leaders(bootstrap, topic):
    """Return a map from partition to leader, from one broker's metadata."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic]
    return {index: each.leader for index, each in found.partitions.items()}


def group_coordinated_by(cluster, broker_id, name):
    return _coordinated_by(cluster, broker_id, name, GROUP)


def transactional_id_coordinated_by(cluster, broker_id, name):
    return _coordinated_by(cluster, broker_id, name, TRANSACTION)


def _coordinated_by(cluster, broker_id, name, kind):
    """Return a name with this prefix whose coordinator is the given broker."""
    names = [f"{name}-{number}" for number in range(32)]
    with RawClient(cluster.brokers[0].bootstrap) as client:

        def coordinators():
            answer = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=names), 4).coordinators
            assert all(each.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE) for each in answer)
            return all(each.error_code == 0 for each in answer) and {each.key: each.node_id for each in answer}

        found = eventually(coordinators, "coordinators are known")
    assert len(set(found.values())) > 1, "all partitions of the internal topic are on one broker"
    return next(key for key, node_id in found.items() if node_id == broker_id)
