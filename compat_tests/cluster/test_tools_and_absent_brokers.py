"""Kafka's tools while a broker is down: partitions without a leader, elections, and unregistering the broker."""

import re
import signal

import pytest

from compat_tests.cluster.sides import CONTROLLERS, through
from compat_tests.harness.waiting import eventually

ELECT = "kafka-leader-election"
TOPICS = "kafka-topics"
CLUSTER = "kafka-cluster"


@pytest.fixture(scope="module")
def shape():
    return "separate"


@pytest.fixture
def without_three(clusters):
    """Stop broker 3 for the duration of the test."""
    for cluster in clusters:
        cluster[3].end(signal.SIGTERM)
    for cluster in clusters:
        cluster.await_brokers(without={3})
    yield
    for cluster in clusters:
        cluster[3].start()
    for cluster in clusters:
        cluster.await_brokers()


@pytest.fixture
def spread(both, topic):
    both.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", "2,3")
    return topic


def test_a_partition_whose_only_broker_is_down_has_no_leader(both, spread, without_three):
    reported = both.run(TOPICS, "--describe", "--topic", spread)
    assert re.findall(r"Leader: (\S+)", reported.output) == ["2", "none"]
    for choice in ("--unavailable-partitions", "--under-replicated-partitions", "--at-min-isr-partitions"):
        both.run(TOPICS, "--describe", "--topic", spread, choice)
    for kind, why in (
        ("preferred", "PreferredLeaderNotAvailableException"),
        ("unclean", "EligibleLeadersNotAvailableException"),
    ):
        one = ("--election-type", kind, "--topic", spread, "--partition", "1")
        answers = [re.findall(r"\w+Exception", ran.said) for ran in both.run_each(ELECT, *one)]
        assert answers[0] == answers[-1]
        assert why in answers[0]
    both.run("kafka-get-offsets", "--topic-partitions", f"{spread}:0")
    both.run("kafka-log-dirs", "--describe", "--topic-list", spread)


def test_a_broker_is_unregistered_and_registers_again(both, without_three):
    for where in ((), CONTROLLERS):
        listed = both.run(CLUSTER, "list-endpoints", *where)
        assert "3" not in [line.split()[0] for line in listed.lines[1:]]
    listed = both.run(CLUSTER, "list-endpoints", "--include-fenced-brokers")
    assert [line.split()[4] for line in listed.lines[1:]] == ["unfenced", "fenced"]
    assert "Broker 3 is no longer registered." in both.run(CLUSTER, "unregister", *CONTROLLERS, "--id", "3").output
    eventually(
        lambda: len(both.run(CLUSTER, "list-endpoints", *through(2), "--include-fenced-brokers").lines) == 2,
        "it is gone",
    )
    assert "not currently registered" in both.run(CLUSTER, "unregister", "--id", "3", status=1).said
