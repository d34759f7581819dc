"""Kafka's tools for topics, records, configurations and reassignments on a controller and two brokers."""

import json
import re

import pytest

from compat_tests.cluster.sides import CONTROLLERS, through

REASSIGN = "kafka-reassign-partitions"
ELECT = "kafka-leader-election"
TOPICS = "kafka-topics"
CONFIGS = "kafka-configs"


@pytest.fixture(scope="module")
def shape():
    return "separate"


@pytest.fixture
def spread(both, topic):
    """Create a topic with a partition on each broker: 0 on broker 2, 1 on broker 3."""
    both.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", "2,3")
    return topic


def sorted_lines(text):
    return "\n".join(sorted(text.splitlines()))


def plan_of(topic, **replicas):
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": int(name[1:]), "replicas": each, "log_dirs": ["any"] * len(each)}
            for name, each in replicas.items()
        ],
    }


def test_brokers_are_observers_and_the_controller_is_the_only_voter(both):
    reported = both.run("kafka-metadata-quorum", "describe", "--replication", change=lambda text: "")
    assert sorted((line.split()[0], line.split()[-1]) for line in reported.lines[1:]) == [
        ("1", "Leader"),
        ("2", "Observer"),
        ("3", "Observer"),
    ]
    listed = both.run("kafka-cluster", "list-endpoints", *CONTROLLERS)
    assert [line.split()[0] for line in listed.lines[1:]] == ["1"]
    listed = both.run("kafka-cluster", "list-endpoints", *through(3))
    assert [line.split()[0] for line in listed.lines[1:]] == ["2", "3"]


def test_topics_have_their_assigned_replicas(both, spread):
    reported = both.run(TOPICS, *through(3), "--describe", "--topic", spread)
    assert re.findall(r"Leader: (\d)\s+Replicas: (\S+)\s+Isr: (\S+)", reported.output) == [("2",) * 3, ("3",) * 3]
    both.run(TOPICS, "--alter", "--topic", spread, "--partitions", "4", "--replica-assignment", "2,3,3,2")
    reported = both.run(TOPICS, *through(2), "--describe", "--topic", spread)
    assert re.findall(r"Replicas: (\S+)", reported.output) == ["2", "3", "3", "2"]
    for choice in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert both.run(TOPICS, "--describe", "--topic", spread, choice).output == ""
    both.run(TOPICS, *through(3), "--delete", "--topic", spread)


@pytest.mark.parametrize(
    "requested", [("--replication-factor", "3"), ("--replica-assignment", "2,9"), ("--replica-assignment", "2:2")]
)
def test_invalid_topics_are_rejected(both, topic, requested):
    both.run(TOPICS, "--create", "--topic", topic, *requested, status=1)


def test_partitions_are_spread(both, topic):
    both.run(TOPICS, "--create", "--topic", topic, "--partitions", "6", "--replication-factor", "1")
    reported = both.run(TOPICS, "--describe", "--topic", topic, change=lambda text: "")
    leaders = re.findall(r"Leader: (\d)", reported.output)
    assert sorted(leaders) == ["2", "2", "2", "3", "3", "3"]


def test_records_of_both_brokers(both, spread, json_file):
    lines = "".join(f"{key}:{key}\n" for key in "abcdefgh")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    both.run("kafka-console-producer", *through(2), "--topic", spread, *keyed, text=lines)
    read = ("--topic", spread, "--from-beginning", "--max-messages", "8")
    reported = both.run("kafka-console-consumer", *through(3), *read, change=lambda text: "".join(sorted(text)))
    assert sorted(reported.lines) == list("abcdefgh")
    ends = both.run("kafka-get-offsets", "--topic", spread)
    counts = [int(line.rpartition(":")[2]) for line in ends.lines]
    assert sum(counts) == 8
    assert all(counts)
    cut = {"partitions": [{"topic": spread, "partition": each, "offset": 1} for each in (0, 1)], "version": 1}
    gone = both.run(
        "kafka-delete-records", *through(2), "--offset-json-file", json_file("cut", cut), change=sorted_lines
    )
    assert gone.output.count("low_watermark: 1") == 2
    begins = both.run("kafka-get-offsets", *through(3), "--topic", spread, "--time", "-2")
    assert begins.lines == [f"{spread}:0:1", f"{spread}:1:1"]


def test_directories_of_both_brokers(both, spread):
    reported = both.run("kafka-log-dirs", *through(3), "--describe", "--topic-list", spread)
    found = {
        each["broker"]: [there["partition"] for there in each["logDirs"][0]["partitions"]]
        for each in json.loads(reported.lines[-1])["brokers"]
    }
    assert found == {2: [f"{spread}-0"], 3: [f"{spread}-1"]}


def test_configurations_of_a_broker_through_the_other(both):
    broker = ("--entity-type", "brokers", "--entity-name", "3")
    both.run(CONFIGS, *through(2), "--alter", *broker, "--add-config", "log.cleaner.threads=2")
    reported = both.run(CONFIGS, *through(2), "--describe", *broker)
    assert "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG" in reported.output
    both.run(CONFIGS, *through(2), "--alter", *broker, "--delete-config", "log.cleaner.threads")
    assert "log.cleaner.threads" not in both.run(CONFIGS, *through(3), "--describe", *broker).output
    rejected = both.run(CONFIGS, *through(2), "--alter", *broker, "--add-config", "log.cleaner.threads=0", status=1)
    assert "log.cleaner.threads" in rejected.said


def test_configurations_of_all_brokers(both):
    all_brokers = ("--entity-type", "brokers", "--entity-default")
    for there, other in ((CONTROLLERS, through(2)), (through(3), CONTROLLERS)):
        both.run(CONFIGS, *there, "--alter", *all_brokers, "--add-config", "log.retention.ms=86400000")
        reported = both.run(CONFIGS, *other, "--describe", *all_brokers)
        assert "log.retention.ms=86400000" in reported.output
        both.run(CONFIGS, *other, "--alter", *all_brokers, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in both.run(CONFIGS, *CONTROLLERS, "--describe", *all_brokers).output


def test_configurations_of_a_controller(both):
    controller = ("--entity-type", "brokers", "--entity-name", "1")
    both.run(CONFIGS, *CONTROLLERS, "--alter", *controller, "--add-config", "max.connections=77")
    reported = both.run(CONFIGS, *CONTROLLERS, "--describe", *controller)
    assert "max.connections=77" in reported.output
    both.run(CONFIGS, *CONTROLLERS, "--alter", *controller, "--delete-config", "max.connections")


def test_configurations_of_a_topic(both, spread):
    choice = ("--entity-type", "topics", "--entity-name", spread)
    both.run(CONFIGS, *through(3), "--alter", *choice, "--add-config", "retention.ms=99999,segment.bytes=2000000")
    reported = both.run(CONFIGS, *through(2), "--describe", *choice)
    assert "retention.ms=99999" in reported.output
    both.run(CONFIGS, *CONTROLLERS, "--alter", *choice, "--delete-config", "segment.bytes")
    rejected = both.run(CONFIGS, *through(2), "--alter", *choice, "--add-config", "retention.ms=x", status=1)
    assert "retention.ms" in rejected.said


def test_quotas_through_either_broker(both, unique):
    user = ("--entity-type", "users", "--entity-name", unique("user"))
    both.run(CONFIGS, *through(2), "--alter", *user, "--add-config", "producer_byte_rate=1024")
    assert "producer_byte_rate=1024.0" in both.run(CONFIGS, *through(3), "--describe", *user).output
    both.run(CONFIGS, *through(3), "--alter", *user, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in both.run(CONFIGS, *through(2), "--describe", *user).output


def test_a_throttled_reassignment_is_pending_and_is_cancelled(both, topic, json_file):
    """A throttle keeps Kafka's reassignment pending, so that both brokers are compared before any record is copied."""
    both.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", "2", "--config", "max.message.bytes=2000000")
    fill = ("--producer-props", "acks=all", "batch.size=1", "linger.ms=0", "max.request.size=2000000")
    rest = ("--topic", topic, "--num-records", "6", "--record-size", "1000000", "--throughput", "-1")
    both.run_each("kafka-producer-perf-test", *fill, *rest)
    topics = json_file("topics", {"version": 1, "topics": [{"topic": topic}]})
    both.run(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "3")
    move = ("--reassignment-json-file", json_file("move", plan_of(topic, p0=[3])))
    started = both.run(REASSIGN, *move, "--execute", "--throttle", "1")
    assert f"Successfully started partition reassignment for {topic}-0" in started.output
    listed = both.run(REASSIGN, *through(3), "--list")
    assert listed.lines[1:] == [f"{topic}-0: replicas: 2. adding: 3. removing: 2."] or "adding: 3" in listed.output
    assert "is still in progress" in both.run(REASSIGN, *move, "--verify", "--preserve-throttles").output
    again = both.run(REASSIGN, *move, "--execute", status=1)
    assert "Cannot execute because there is an existing partition assignment" in again.said
    reported = both.run(TOPICS, "--describe", "--topic", topic)
    assert "Adding Replicas: 3" in reported.output
    gone = both.run(REASSIGN, *move, "--cancel")
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in gone.output
    assert both.run(REASSIGN, "--list").lines == ["No partition reassignments found."]
    reported = both.run(TOPICS, "--describe", "--topic", topic)
    assert re.findall(r"Replicas: (\S+)", reported.output) == ["2"]


def test_elections_that_are_not_needed_are_reported(both, spread, json_file):
    for kind in ("preferred", "unclean"):
        one = ("--election-type", kind, "--topic", spread, "--partition", "0")
        both.run(ELECT, *one)
    wanted = [{"topic": spread, "partition": each} for each in (0, 1, 5)]
    plan = json_file("plan", {"partitions": wanted})
    both.run(ELECT, *through(3), "--election-type", "preferred", "--path-to-json-file", plan, status=1)
