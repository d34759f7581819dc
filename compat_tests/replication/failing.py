"""Failures of Kafka's replication system test: how a node fails, and which node it is."""

import signal

from compat_tests.cluster.placing import leaders
from compat_tests.harness.waiting import eventually
from tests.cluster_processes.watch import QUESTION, VERSION
from tests.support.raw_client import RawClient

BOUNCES = 5
SECONDS = 60


def leader_of(cluster, topic):
    """Return the node that leads the topic's first partition."""
    running = next(node for node in cluster.nodes if node.process is not None)
    return cluster[eventually(lambda: max(leaders(running.bootstrap, topic)[0], 0), f"{topic} has a leader", SECONDS)]


def controller_of(cluster, topic):
    """Return the node that leads the metadata quorum."""
    running = next(node for node in cluster.nodes if node.process is not None)

    def leader():
        with RawClient(running.bootstrap) as client:
            return max(client.ask(QUESTION, VERSION).topics[0].partitions[0].leader_id, 0)

    return cluster[eventually(leader, "a controller leads", SECONDS)]


def clean_shutdown(cluster, find):
    find().end(signal.SIGTERM)


def hard_shutdown(cluster, find):
    find().end(signal.SIGKILL)


def _bounce(cluster, find, number):
    """Stop and restart a node repeatedly: each time the one that has the role then."""
    for _ in range(BOUNCES):
        node = find()
        node.end(number)
        cluster.await_brokers(without={node.node_id})
        node.start()
        cluster.await_brokers()


def clean_bounce(cluster, find):
    _bounce(cluster, find, signal.SIGTERM)


def hard_bounce(cluster, find):
    _bounce(cluster, find, signal.SIGKILL)


WHO = {"leader": leader_of, "controller": controller_of}
HOW = {each.__name__: each for each in (clean_shutdown, hard_shutdown, clean_bounce, hard_bounce)}
