"""Every configuration key of Kafka exists in kwire and has the same description."""

import pytest

from compat_tests.configs import truth
from compat_tests.configs.asking import BROKER, CLIENT_METRICS, GROUP, SET, TOPIC, alter, describe, entries
from compat_tests.configs.known_differences import VALUES_DIFFER
from compat_tests.harness.waiting import eventually
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import parse, render
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.topic import TOPIC_KEYS

TABLES = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS, "client-metrics": CLIENT_METRICS_KEYS}


@pytest.mark.parametrize("kind", TABLES)
def test_the_key_table_matches_kafkas(kind):
    ours = {name: key for name, key in TABLES[kind].items() if not key.is_own}
    theirs = truth.keys(kind)
    assert ours.keys() == theirs.keys()
    for name, key in theirs.items():
        own = ours[name]
        default = own.default if own.kafka_default is None else own.kafka_default
        assert own.type.name == key["type"], name
        assert own.internal == key["internal"], name
        assert bool(own.check) == bool(key["validator"] is not None and key["validator"] != "non-null string"), name
        assert own.update.value == (key["update"] or "read-only"), name
        if key["has_default"]:
            assert render(parse(own, default)) == key["default"], name


def without_values(described):
    """Return the fields that must be equal even if the broker's values differ."""
    return {
        name: {field: value for field, value in each.items() if field not in {"value", "source", "synonyms"}}
        if name in VALUES_DIFFER
        else each
        for name, each in described.items()
    }


def described(peer, kind, name, version):
    return without_values(entries(describe(peer, kind, name, version=version)))


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("kind", [BROKER, TOPIC, GROUP, CLIENT_METRICS])
def test_descriptions_match_kafkas(both, each, topic, kind, version):
    name = topic if kind == TOPIC else "1" if kind == BROKER else "something"
    if kind == TOPIC:
        for peer in each:
            peer.create_topic(topic, retention_ms=5, cleanup_policy="compact,delete")
    ours, theirs = (described(peer, kind, name, version) for peer in both)
    assert ours == theirs


@pytest.mark.parametrize("kind", [BROKER, TOPIC, GROUP])
def test_documentation_and_synonyms_come_only_when_asked_for(peer, topic, kind):
    peer.create_topic(topic)
    name = topic if kind == TOPIC else "1"
    assert all(entry.documentation for entry in describe(peer, kind, name, documentation=True).configs)
    plain = describe(peer, kind, name, synonyms=False).configs
    assert {(tuple(each.synonyms), each.documentation) for each in plain} == {((), None)}


LAYERS = (
    (BROKER, "", "log.retention.ms", " 7000 "),
    (BROKER, "", "log.cleanup.policy", "compact, delete"),
    (BROKER, "", "log.cleaner.io.max.bytes.per.second", "1e10"),
    (BROKER, "", "message.max.bytes", "3000"),
    (BROKER, "", "leader.replication.throttled.rate", "9"),
    (BROKER, "", "some.plugin.key", "x"),
    (BROKER, "1", "message.max.bytes", "4000"),
    (BROKER, "1", "log.segment.bytes", "2000000"),
    (BROKER, "1", "unclean.leader.election.enable", "TRUE"),
    (BROKER, "1", "listener.name.plaintext.max.connections", "500"),
    (BROKER, "1", "group.consumer.assignment.interval.ms", "1500"),
    (GROUP, "a-group", "consumer.session.timeout.ms", "50000"),
    (GROUP, "a-group", "share.isolation.level", "read_committed"),
    (CLIENT_METRICS, "a-subscription", "interval.ms", "700"),
    (CLIENT_METRICS, "a-subscription", "match", "client_id=a.*"),
)


RESOURCES = ((TOPIC, ""), (BROKER, "1"), (BROKER, ""), (GROUP, "a-group"), (CLIENT_METRICS, "a-subscription"))


def is_taken_over(peer):
    return "match" in entries(describe(peer, CLIENT_METRICS, "a-subscription")) and (
        entries(describe(peer, BROKER, "1"))["group.consumer.assignment.interval.ms"]["value"] == "1500"
        and entries(describe(peer, GROUP, "a-group"))["share.isolation.level"]["value"] == "read_committed"
    )


def test_values_of_every_source_are_described_alike(both, each, topic):
    """Values of all sources (topic, this broker, all brokers, file) agree; values of unknown keys are hidden."""
    try:
        for peer in each:
            peer.create_topic(topic, segment_ms="86400000", max_compaction_lag_ms="5000", flush_messages="6")
            for kind, name, key, value in LAYERS:
                assert alter(peer, kind, name, (key, SET, value)) == (0, None), key
        for peer in each:
            eventually(lambda peer=peer: is_taken_over(peer), "the last of the changes to be taken over")
        for kind, name in RESOURCES:
            ours, theirs = (described(peer, kind, name or topic * (kind == TOPIC), 4) for peer in both)
            for entries_of_a_broker in (ours, theirs):
                if (kind, name) == (BROKER, ""):
                    entries_of_a_broker.pop("min.insync.replicas", None)
            assert ours == theirs, (kind, name)
    finally:
        for peer in each:
            for kind, name, key, _ in LAYERS:
                alter(peer, kind, name, (key, 1, None))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(TOPIC, "never-made"), (TOPIC, "a/b"), (BROKER, "2"), (BROKER, "x"), (GROUP, ""), (CLIENT_METRICS, "")],
)
def test_invalid_resources_have_kafkas_error_code(both, kind, name):
    ours, theirs = (describe(peer, kind, name) for peer in both)
    assert (ours.error_code, ours.configs) == (theirs.error_code, theirs.configs)
