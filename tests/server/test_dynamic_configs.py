"""Dynamic broker settings: each honoured setting takes effect at once where it applies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import Use
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.protocol.error_codes import ErrorCode
from tests.server.test_configs import BROKER, DELETE, SET, TOPIC, alter, describe
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, list_offset, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

GROUP, CLIENT_METRICS = 32, 16
GROUP_SOURCE, CLIENT_METRICS_SOURCE, DEFAULT = 8, 7, 5

ALTERED: dict[str, tuple[str, str, Any]] = {
    "compression.gzip.level": ("6", "7", (6, 7)),
    "compression.lz4.level": ("10", "11", (10, 11)),
    "compression.type": ("gzip", "zstd", ("gzip", "zstd")),
    "compression.zstd.level": ("4", "5", (4, 5)),
    "log.cleaner.delete.retention.ms": ("10", "11", (10, 11)),
    "log.cleaner.max.compaction.lag.ms": ("1000000", "2000000", (1_000_000, 2_000_000)),
    "log.cleaner.min.cleanable.ratio": ("0.25", "0.75", (0.25, 0.75)),
    "log.cleaner.min.compaction.lag.ms": ("10", "11", (10, 11)),
    "log.cleanup.policy": ("compact", "compact,delete", (("compact",), ("compact", "delete"))),
    "log.flush.interval.messages": ("10", "11", (10, 11)),
    "log.flush.interval.ms": ("10", "11", (10, 11)),
    "log.index.interval.bytes": ("10", "11", (10, 11)),
    "log.index.size.max.bytes": ("800", "1600", (800, 1600)),
    "log.message.timestamp.after.max.ms": ("10", "11", (10, 11)),
    "log.message.timestamp.before.max.ms": ("10", "11", (10, 11)),
    "log.message.timestamp.type": ("LogAppendTime", "CreateTime", ("LogAppendTime", "CreateTime")),
    "log.retention.bytes": ("10", "11", (10, 11)),
    "log.retention.ms": ("1000000", "-1", (1_000_000, -1)),
    "log.roll.jitter.ms": ("10", "11", (10, 11)),
    "log.roll.ms": ("1000000", "2000000", (1_000_000, 2_000_000)),
    "log.segment.bytes": ("2000000", "3000000", (2_000_000, 3_000_000)),
    "log.segment.delete.delay.ms": ("10", "11", (10, 11)),
    "message.max.bytes": ("3000", "4000", (3000, 4000)),
}
"""Config key: (default of all brokers, this broker's own value, resulting value in the logs of topics)."""
INTERVALS = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))
OTHERWISE_TESTED = {
    *INTERVALS,
    "cordoned.log.dirs",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs.free.bytes.min",
    "max.connection.creation.rate",
    "max.connections",
    "principal.builder.class",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "min.insync.replicas",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "producer.id.expiration.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {"log.initial.task.delay.ms": "20", "log.retention.check.interval.ms": "20", "log.roll.hours": "5"}
    with RunningBroker(tmp_path_factory.mktemp("dynamic"), settings) as running:
        yield running


def topic_key_of(name: str) -> str:
    (key,) = (key.name for key in TOPIC_KEYS.values() if name in key.synonyms)
    return key


def in_the_log(broker: RunningBroker, topic: str, key: str) -> Any:
    partition = broker.server.services.partitions.find(topic, 0)
    return broker.call(lambda: getattr(partition.log.config, key.replace(".", "_")))


def test_every_dynamic_key_that_is_honoured_is_tested() -> None:
    honoured = {key.name for key in BROKER_KEYS.values() if key.dynamic and key.use is Use.HONOURED}
    assert honoured == ALTERED.keys() | OTHERWISE_TESTED


@pytest.mark.parametrize("name", ALTERED)
def test_topics_without_a_value_of_their_own_follow_at_once(
    broker: RunningBroker, client: RawClient, name: str
) -> None:
    for_all, own, (first, second) = ALTERED[name]
    key = topic_key_of(name)
    plain, _ = create_topic(client)
    before = in_the_log(broker, plain, key)
    firm, _ = create_topic(client, **{key.replace(".", "_"): describe(client, TOPIC, plain, key)[key].value})
    steps: list[tuple[str, str | None, Any]] = [
        ("", for_all, first),
        ("1", own, second),
        ("1", None, first),
        ("", None, before),
    ]
    for resource, value, expected in steps:
        operation = DELETE if value is None else SET
        assert alter(client, BROKER, resource, (name, operation, value)) == 0
        assert in_the_log(broker, plain, key) == expected
        assert in_the_log(broker, firm, key) == before, "a topic's own value stays"
        made_now, _ = create_topic(client)
        assert in_the_log(broker, made_now, key) == expected
        assert broker.server.settings.values[name] == committed(broker, name), "the broker's own view follows"


def committed(broker: RunningBroker, name: str) -> Any:
    services = broker.server.services
    return services.dynamic_configs.settings_of(services.image)[name]


def test_the_replicas_that_must_be_in_sync_are_the_same_for_all_brokers(
    broker: RunningBroker, client: RawClient
) -> None:
    """KIP-966: eligible leaders depend on this setting."""
    name = "min.insync.replicas"
    plain, _ = create_topic(client)
    assert in_the_log(broker, plain, name) == 1
    assert alter(client, BROKER, "", (name, SET, "2")) == 0
    assert in_the_log(broker, plain, name) == 2
    assert alter(client, BROKER, "1", (name, SET, "1")) == ErrorCode.INVALID_CONFIG
    assert alter(client, BROKER, "", (name, DELETE, None)) == ErrorCode.INVALID_CONFIG
    assert in_the_log(broker, plain, name) == 2
    assert alter(client, BROKER, "", (name, SET, "1")) == 0


def test_retention_that_is_altered_deletes(client: RawClient) -> None:
    topic, _ = create_topic(client, segment_bytes=1024 * 1024, retention_ms=-1)
    for _ in range(4):
        produce(client, topic, batch(b"x" * 600_000))
    assert list_offset(client, topic, -2).offset == 0
    assert alter(client, BROKER, "", ("log.retention.bytes", SET, "700000")) == 0
    eventually(lambda: list_offset(client, topic, -2).offset == 2, "segments over log.retention.bytes to go")
    assert alter(client, BROKER, "", ("log.retention.bytes", DELETE, None)) == 0
    assert produce(client, topic, batch(b"x")).error_code == 0


def test_row_45_producers_expire_by_the_altered_time(broker: RunningBroker, client: RawClient) -> None:
    assert alter(client, BROKER, "1", ("producer.id.expiration.ms", SET, "5")) == 0
    assert broker.server.settings.values["producer.id.expiration.ms"] == 5
    assert alter(client, BROKER, "1", ("producer.id.expiration.ms", DELETE, None)) == 0
    assert broker.server.settings.values["producer.id.expiration.ms"] == 86_400_000


@pytest.mark.parametrize("name", INTERVALS)
def test_groups_without_an_assignment_interval_of_their_own_follow_at_once(client: RawClient, name: str) -> None:
    key = name.removeprefix("group.")
    assert alter(client, BROKER, "", (name, SET, "7")) == 0
    eventually(lambda: describe(client, GROUP, "g", key)[key].value == "7", "the groups follow")
    assert alter(client, BROKER, "", (name, DELETE, None)) == 0
    default = str(BROKER_KEYS[name].default)
    eventually(lambda: describe(client, GROUP, "g", key)[key].value == default, "the default is back")


def test_ignored_keys_are_taken_and_shown(client: RawClient) -> None:
    for name, value in (("num.io.threads", "12"), ("log.cleaner.io.buffer.size", "600000")):
        assert alter(client, BROKER, "", (name, SET, value)) == 0
        shown = describe(client, BROKER, "1", name)[name]
        assert (shown.value, shown.config_source, shown.read_only) == (value, 3, False)
        assert alter(client, BROKER, "", (name, DELETE, None)) == 0


@pytest.mark.parametrize(
    ("resource", "name", "value", "code"),
    [
        ("1", "node.id", "4", ErrorCode.INVALID_REQUEST),
        ("1", "log.retention.ms", "soon", ErrorCode.INVALID_REQUEST),
        ("1", "log.retention.ms", "0", ErrorCode.INVALID_REQUEST),
        ("", "listeners", "PLAINTEXT://:9099", ErrorCode.INVALID_REQUEST),
        ("1", "listeners", "PLAINTEXT://:9099", ErrorCode.INVALID_REQUEST),
        ("1", "sasl.login.refresh.window.factor", "0.5", ErrorCode.INVALID_REQUEST),
        ("1", "listener.name.plaintext.ssl.keystore.location", "/k", ErrorCode.INVALID_CONFIG),
        ("", "listener.name.plaintext.ssl.keystore.location", "/k", ErrorCode.INVALID_CONFIG),
        ("1", "listener.name.plaintext.ssl.provider", "x", ErrorCode.INVALID_CONFIG),
        ("1", "num.io.threads", "17", ErrorCode.INVALID_REQUEST),
        ("2", "log.retention.ms", "5", ErrorCode.INVALID_REQUEST),
        ("x", "log.retention.ms", "5", ErrorCode.INVALID_REQUEST),
        ("1", "some.plugin.key", "x", ErrorCode.NONE),
    ],
)
def test_changes_of_broker_configs_are_validated(
    client: RawClient, resource: str, name: str, value: str, code: ErrorCode
) -> None:
    assert alter(client, BROKER, resource, (name, SET, value), validate_only=True) == code


def test_a_secret_is_not_repeated(client: RawClient) -> None:
    assert alter(client, BROKER, "1", ("plug.in.secret", SET, "hush")) == 0
    shown = describe(client, BROKER, "1", "plug.in.secret")["plug.in.secret"]
    assert (shown.value, shown.is_sensitive, shown.synonyms[0].value) == (None, True, None)
    assert alter(client, BROKER, "1", ("plug.in.secret", DELETE, None)) == 0


def test_groups_and_subscriptions_have_configurations(client: RawClient) -> None:
    assert alter(client, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == 0
    found = describe(client, GROUP, "g")
    assert len(found) == 17
    own, other = found["consumer.session.timeout.ms"], found["consumer.heartbeat.interval.ms"]
    assert (own.value, own.config_source) == ("50000", GROUP_SOURCE)
    assert (other.value, other.config_source) == ("5000", DEFAULT)
    assert alter(client, GROUP, "g", ("consumer.session.timeout.ms", SET, "1")) == ErrorCode.INVALID_CONFIG
    assert alter(client, CLIENT_METRICS, "m", ("interval.ms", SET, "100")) == 0
    assert describe(client, CLIENT_METRICS, "m")["interval.ms"].config_source == CLIENT_METRICS_SOURCE
    assert alter(client, CLIENT_METRICS, "m", ("interval.ms", DELETE, None)) == 0


def test_broker_and_cluster_configs_survive_a_restart(data_dir: Path) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        assert alter(client, BROKER, "", ("max.connections.per.ip", SET, "70"), ("log.roll.ms", SET, "7000")) == 0
        assert alter(client, BROKER, "1", ("max.connections.per.ip", SET, "90")) == 0
    with RunningBroker(data_dir) as broker, broker.client() as client:
        assert broker.server.settings.values["max.connections.per.ip"] == 90
        assert broker.server._listeners.limits.max_from("127.0.0.1") == 90
        topic, _ = create_topic(client)
        assert in_the_log(broker, topic, "segment.ms") == 7000
        assert alter(client, BROKER, "1", ("max.connections.per.ip", DELETE, None)) == 0
        assert broker.server._listeners.limits.max_from("127.0.0.1") == 70
