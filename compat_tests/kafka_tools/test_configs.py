"""kafka-configs for brokers, groups, client metrics, quotas; kafka-client-metrics."""

import pytest

from compat_tests.kafka_tools.comparing import only_lines_with

CONFIGS, METRICS = "kafka-configs", "kafka-client-metrics"


def test_settings_of_one_broker_and_of_all(both):
    both.run(CONFIGS, "--alter", "--broker-defaults", "--add-config", "log.retention.ms=70000000")
    both.run(CONFIGS, "--alter", "--broker", "1", "--add-config", "log.retention.ms=80000000")
    own = both.run(CONFIGS, "--describe", "--broker", "1")
    assert "DYNAMIC_BROKER_CONFIG:log.retention.ms=80000000" in own.output
    shared = both.run(CONFIGS, "--describe", "--broker-defaults")
    assert "log.retention.ms=70000000" in shared.output
    both.run(CONFIGS, "--alter", "--broker", "1", "--delete-config", "log.retention.ms")
    both.run(CONFIGS, "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")
    everything = both.run(CONFIGS, "--describe", "--entity-type", "brokers")
    assert "retention" not in everything.output


def test_every_setting_of_a_broker_is_described(both):
    """The tool lists the same keys on both; the row `configs` compares the values."""

    def keys(text):
        return "".join(sorted(line.partition("=")[0] + "\n" for line in text.splitlines()))

    described = both.run(CONFIGS, "--describe", "--broker", "1", "--all", change=keys)
    assert len(described.lines) > 200


def test_wrong_settings_of_a_broker_are_rejected(both):
    rejected = {
        "--broker 1 --add-config log.retention.ms=soon": "log.retention.ms",
        "--broker 1 --add-config node.id=4": "node.id",
        "--broker-defaults --add-config num.partitions=x": "num.partitions",
    }
    for change, key in rejected.items():
        assert key in both.run(CONFIGS, "--alter", *change.split(), status=1).errors


def test_settings_of_a_group(both, group):
    of_group = ("--group", group)
    assert "doesn't exist" in both.run(CONFIGS, "--describe", *of_group).output
    both.run(CONFIGS, "--alter", *of_group, "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in both.run(CONFIGS, "--describe", *of_group).output
    listed = both.run(CONFIGS, "--describe", "--entity-type", "groups", change=only_lines_with(group))
    assert f"Dynamic configs for group {group} are:" in listed.lines
    rejected = both.run(CONFIGS, "--alter", *of_group, "--add-config", "consumer.session.timeout.ms=1", status=1)
    assert "consumer.session.timeout.ms" in rejected.errors
    both.run(CONFIGS, "--alter", *of_group, "--delete-config", "consumer.session.timeout.ms")


def test_subscriptions_of_client_metrics_through_kafka_configs(both, unique):
    of_metrics = ("--client-metrics", unique("metrics"))
    assert both.run(CONFIGS, "--describe", *of_metrics).status == 0
    both.run(CONFIGS, "--alter", *of_metrics, "--add-config", "interval.ms=1000,metrics=org.")
    assert "interval.ms=1000" in both.run(CONFIGS, "--describe", *of_metrics).output
    rejected = both.run(CONFIGS, "--alter", *of_metrics, "--add-config", "interval.ms=1", status=1)
    assert "interval.ms" in rejected.errors
    both.run(CONFIGS, "--alter", *of_metrics, "--delete-config", "interval.ms,metrics")


def test_subscriptions_of_client_metrics_through_their_own_tool(both, unique):
    name = unique("metrics")
    settings = ("--metrics", "org.apache.kafka.", "--interval", "5000", "--match", "client_id=x")
    both.run(METRICS, "--alter", "--name", name, *settings)
    described = both.run(METRICS, "--describe", "--name", name)
    assert [line.strip() for line in described.lines[1:]] == [
        "interval.ms=5000",
        "match=client_id=x",
        "metrics=org.apache.kafka.",
    ]
    assert both.run(METRICS, "--list", change=only_lines_with(name)).lines.count(name) == 1
    both.run(METRICS, "--delete", "--name", name)
    assert name not in both.run(METRICS, "--list", change=only_lines_with(name)).output


@pytest.mark.parametrize("entity", ["--client {}", "--user {0} --client {0}", "--ip 127.0.0.9"])
def test_quotas_of_one_entity_are_set_described_and_deleted(both, unique, entity):
    chosen = entity.format(unique("entity")).split()
    keys = ["connection_creation_rate"] if "--ip" in chosen else ["consumer_byte_rate", "producer_byte_rate"]
    both.run(CONFIGS, "--alter", *chosen, "--add-config", ",".join(f"{key}=7000" for key in keys))
    described = both.run(CONFIGS, "--describe", *chosen)
    assert all(f"{key}=7000.0" in described.output for key in keys)
    both.run(CONFIGS, "--alter", *chosen, "--delete-config", ",".join(keys))
    assert both.run(CONFIGS, "--describe", *chosen).output == ""


def test_quotas_of_a_user_are_set_described_and_deleted(both, unique):
    user = unique("user")
    both.run(CONFIGS, "--alter", "--user", user, "--add-config", "request_percentage=50")
    described = both.run(CONFIGS, "--describe", "--user", user)
    assert described.lines == [f"Quota configs for user-principal '{user}' are request_percentage=50.0"]
    of_all = both.run(CONFIGS, "--describe", "--entity-type", "users", change=only_lines_with(user))
    assert user in of_all.output
    both.run(CONFIGS, "--alter", "--user", user, "--delete-config", "request_percentage")
    rejected = both.run(CONFIGS, "--alter", "--user", user, "--add-config", "nope=1", status=1)
    assert "nope" in rejected.errors


@pytest.mark.parametrize("entity", ["--client-defaults", "--user-defaults"])
def test_default_quotas_are_set_described_and_deleted(both, entity):
    both.run(CONFIGS, "--alter", entity, "--add-config", "controller_mutation_rate=900")
    assert "controller_mutation_rate=900.0" in both.run(CONFIGS, "--describe", entity).output
    both.run(CONFIGS, "--alter", entity, "--delete-config", "controller_mutation_rate")
    assert both.run(CONFIGS, "--describe", entity).output == ""
