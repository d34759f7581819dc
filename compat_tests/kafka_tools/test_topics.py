"""kafka-topics, and kafka-configs for topics."""

import pytest

from compat_tests.kafka_tools.comparing import only_lines_with

TOPICS, CONFIGS = "kafka-topics", "kafka-configs"


@pytest.mark.short
def test_a_topic_is_created_altered_and_deleted(both, topic):
    assert both.run(TOPICS, "--create", "--topic", topic, "--partitions", "2").lines == [f"Created topic {topic}."]
    assert both.run(TOPICS, "--list", change=only_lines_with(topic)).lines.count(topic) == 1
    described = both.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described.lines[0]
    assert ["Leader: 1" in line for line in described.lines[1:]] == [True, True]
    both.run(TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    assert len(both.run(TOPICS, "--describe", "--topic", topic).lines) == 5
    assert both.run(TOPICS, "--delete", "--topic", topic).output == ""
    assert "does not exist" in both.run(TOPICS, "--delete", "--topic", topic, status=1).output
    assert both.run(TOPICS, "--delete", "--topic", topic, "--if-exists").output == ""


def test_invalid_topics_are_rejected(both, new_topic):
    name = new_topic()
    rejected = {
        f"--topic {name}": "already exists",
        f"--topic {name}-a --config nope=1": "Unknown topic config name: nope",
        f"--topic {name}-b --config retention.ms=soon": "retention.ms",
        f"--topic {name}!": "Topic name is invalid",
        f"--topic {name}-c --replica-assignment 7": "no such broker is registered",
    }
    for arguments, reason in rejected.items():
        assert reason in both.run(TOPICS, "--create", *arguments.split(), status=1).output
    both.run(TOPICS, "--create", "--topic", name, "--if-not-exists")


def test_more_replicas_than_brokers_are_rejected(both, topic):
    """The messages are compared up to Kafka's part about log directories, which kwire does not have here."""
    arguments = ("--create", "--topic", topic, "--replication-factor", "3")
    rejected = both.run(
        TOPICS, *arguments, status=1, change=lambda text: text.partition(" or some brokers")[0].strip(".\n")
    )
    assert "only 1 broker(s) are registered" in rejected.output


def test_partitions_only_grow(both, new_topic):
    name = new_topic(3)
    for count in ("2", "3"):
        rejected = both.run(TOPICS, "--alter", "--topic", name, "--partitions", count, status=1)
        assert "3 partition" in rejected.output
    assert "does not exist" in both.run(TOPICS, "--alter", "--topic", f"{name}-x", "--partitions", "2", status=1).output


def test_topics_are_chosen_by_their_state(both, topic):
    both.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", "1,1", "--config", "retention.ms=9000")
    with_own = both.run(TOPICS, "--describe", "--topics-with-overrides", "--topic", topic)
    assert "retention.ms=9000" in with_own.output
    for state in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
        "--at-min-isr-partitions",
    ):
        ran = both.run(TOPICS, "--describe", state, "--topic", topic, "--exclude-internal")
        assert len(ran.lines) == (2 if state == "--at-min-isr-partitions" else 0)
    rejected = both.run(TOPICS, "--describe", "--topic", f"{topic}-none", status=1)
    assert "does not exist" in rejected.output


@pytest.mark.short
def test_settings_of_a_topic_change(both, new_topic):
    name = new_topic()
    of_topic = ("--entity-type", "topics", "--entity-name", name)
    both.run(CONFIGS, "--alter", *of_topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = both.run(CONFIGS, "--describe", *of_topic)
    assert "retention.ms=5000 sensitive=false" in described.output
    assert "cleanup.policy=compact,delete sensitive=false" in described.output
    both.run(CONFIGS, "--alter", *of_topic, "--delete-config", "retention.ms,cleanup.policy")
    assert both.run(CONFIGS, "--describe", "--topic", name).lines == [f"Dynamic configs for topic {name} are:"]


def test_every_setting_of_a_topic_is_described(both, new_topic):
    described = both.run(CONFIGS, "--describe", "--topic", new_topic(), "--all")
    assert len(described.lines) > 30


def test_wrong_settings_of_a_topic_are_rejected(both, new_topic):
    name = new_topic()
    rejected = {
        "--add-config nope=1": "Unknown topic config name: nope",
        "--add-config retention.ms=soon": "Invalid value soon for configuration retention.ms",
        "--add-config cleanup.policy=keep": "cleanup.policy",
    }
    for change, reason in rejected.items():
        assert reason in both.run(CONFIGS, "--alter", "--topic", name, *change.split(), status=1).errors
    unknown = ("--topic", f"{name}-none")
    assert "doesn't exist" in both.run(CONFIGS, "--describe", *unknown).output
    alter = ("--alter", *unknown, "--add-config", "retention.ms=5")
    assert "does not exist" in both.run(CONFIGS, *alter, status=1).errors


def test_min_insync_replicas_is_set_for_the_cluster(both, new_topic):
    for ran in both.run_each(TOPICS, "--describe", "--topic", new_topic()):
        assert "min.insync.replicas=1" in ran.output
