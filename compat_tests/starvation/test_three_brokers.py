"""The most costly attacks on one of three brokers: the active controller, which leads and coordinates for the victim.

The victim's topic has three replicas and min.insync.replicas=2. Broker sessions have Kafka's default timeout.
Kafka's default.
"""

from dataclasses import replace
from functools import partial

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from compat_tests.starvation.attack import TIMEOUT_MS
from compat_tests.starvation.attacks import ATTACKS
from compat_tests.starvation.judging import params
from compat_tests.starvation.measuring import Cases
from compat_tests.starvation.scene import SECONDS, VICTIM_TOPIC, led, prepare
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest

PREFERRED = 0
PART = "Three brokers"
SESSIONS = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
COSTLIEST = (
    "Produce, compressed for a compacted topic",
    "Fetch, many partitions",
    "DescribeGroups, many unknown groups",
    "CreateTopics, validated",
    "CreateTopics and DeleteTopics",
    "Metadata, all topics",
)
SHORT = "DescribeGroups, many unknown groups"
"""Attack of the short form."""
CHOSEN = [replace(each, is_short=each.name == SHORT) for each in ATTACKS if each.name in COSTLIEST]


def active_controller(peer):
    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    answer = peer.ask(DescribeQuorumRequest(topics=[topic]), 1)
    return answer.topics[0].partitions[0].leader_id


def restore(cluster, attacked, scene):
    """Kill the attacked broker and restart it: others lead meanwhile, and it leads again afterwards."""
    attacked.end()
    attacked.start()
    cluster.await_brokers()
    eventually(lambda: leads_again(attacked, scene), "the attacked broker leads again", SECONDS)


def leads_again(attacked, scene):
    with Peer(attacked.bootstrap) as peer:
        peer.ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=TIMEOUT_MS), 2)
        asked = FindCoordinatorRequest(coordinator_keys=[scene.victim_group])
        coordinator = peer.ask(asked, 6).coordinators[0].node_id
        return coordinator == attacked.node_id == led(peer)[VICTIM_TOPIC, 0][0]


@pytest.fixture(scope="module")
def cases(tested, tmp_path_factory):
    cluster = Cluster(tested, tmp_path_factory.mktemp("cluster"), SHAPES["combined"], **REPLICATED, **SESSIONS)
    try:
        cluster.start()
        with Peer(cluster[1].bootstrap) as peer:
            attacked = cluster[eventually(lambda: active_controller(peer), "an active controller")]
        others = [node.node_id for node in cluster.brokers if node is not attacked]
        scene = prepare(attacked.bootstrap, broker_id=attacked.node_id, others=others)
        restart = partial(restore, cluster, attacked, scene)
        with Cases(scene, tmp_path_factory.mktemp("attacks"), attacked, restart) as cases:
            yield cases
    finally:
        cluster.end()


@pytest.mark.parametrize("attack", params(pytest, CHOSEN))
def test_another_client_is_served_and_leaders_stay(cases, judge, evidence, attack):
    complaints = judge.judge(cases, attack, partial(evidence.add, PART))
    assert complaints == []
