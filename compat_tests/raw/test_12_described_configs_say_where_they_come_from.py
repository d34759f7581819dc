"""Pitfall 12: DescribeConfigs returns synonyms, sources, types, read-only marks and documentation."""

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7


def describe(peer, kind, name, *keys, version=4, synonyms=True, documentation=False):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = peer.ask(request, version).results
    return result


def by_name(result):
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


@pytest.mark.short
@pytest.mark.parametrize("version", range(1, 5))
def test_topic_values_and_defaults_have_different_sources(peer, topic, version):
    peer.create_topic(topic, retention_ms=1000)
    found = by_name(describe(peer, TOPIC, topic, "retention.ms", "segment.ms", "no.such.config", version=version))
    assert set(found) == {"retention.ms", "segment.ms"}
    own, default = found["retention.ms"], found["segment.ms"]
    assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("1000", DYNAMIC_TOPIC, False, False)
    assert (default.value, default.config_source) == ("604800000", DEFAULT)
    assert next((each.name, each.value, each.source) for each in own.synonyms) == (
        "retention.ms",
        "1000",
        DYNAMIC_TOPIC,
    )
    if version >= 3:
        assert (own.config_type, default.config_type) == (LONG, LONG)


def test_synonyms_and_documentation_come_only_when_asked_for(peer, topic):
    peer.create_topic(topic, retention_ms=1000)
    found = by_name(describe(peer, TOPIC, topic, synonyms=False))
    assert {(tuple(each.synonyms), each.documentation) for each in found.values()} == {((), None)}
    assert all(each.documentation for each in by_name(describe(peer, TOPIC, topic, documentation=True)).values())


def test_every_topic_config_has_kafkas_default_and_type(peer, topic):
    peer.create_topic(topic)
    found = by_name(describe(peer, TOPIC, topic))
    values = {name: (each.value, each.config_type) for name, each in found.items()}
    assert values == EXPECTED
    assert not any(each.read_only for each in found.values())


def test_settings_of_the_properties_file_have_their_own_source(peer):
    found = by_name(describe(peer, BROKER, "1"))
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("1", STATIC_BROKER)
    assert (found["message.max.bytes"].value, found["message.max.bytes"].config_source) == ("1048588", DEFAULT)
    assert found["node.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert found["log.retention.hours"].value == "168"


def test_unknown_resources_are_rejected(peer, unique):
    rejected = describe(peer, TOPIC, unique("unknown"))
    assert (rejected.error_code, rejected.configs) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert describe(peer, BROKER, "77").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, TOPIC, "a/b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(peer, 99, "x").error_code == ErrorCode.INVALID_REQUEST


EXPECTED = {
    "cleanup.policy": ("delete", LIST),
    "compression.gzip.level": ("-1", INT),
    "compression.lz4.level": ("9", INT),
    "compression.type": ("producer", STRING),
    "compression.zstd.level": ("3", INT),
    "delete.retention.ms": ("86400000", LONG),
    "file.delete.delay.ms": ("60000", LONG),
    "flush.messages": ("9223372036854775807", LONG),
    "flush.ms": ("9223372036854775807", LONG),
    "follower.replication.throttled.replicas": ("", LIST),
    "index.interval.bytes": ("4096", INT),
    "leader.replication.throttled.replicas": ("", LIST),
    "local.retention.bytes": ("-2", LONG),
    "local.retention.ms": ("-2", LONG),
    "max.compaction.lag.ms": ("9223372036854775807", LONG),
    "max.message.bytes": ("1048588", INT),
    "message.timestamp.after.max.ms": ("3600000", LONG),
    "message.timestamp.before.max.ms": ("9223372036854775807", LONG),
    "message.timestamp.type": ("CreateTime", STRING),
    "min.cleanable.dirty.ratio": ("0.5", DOUBLE),
    "min.compaction.lag.ms": ("0", LONG),
    "min.insync.replicas": ("1", INT),
    "preallocate": ("false", BOOLEAN),
    "remote.log.copy.disable": ("false", BOOLEAN),
    "remote.log.delete.on.disable": ("false", BOOLEAN),
    "remote.storage.enable": ("false", BOOLEAN),
    "retention.bytes": ("-1", LONG),
    "retention.ms": ("604800000", LONG),
    "segment.bytes": ("1073741824", INT),
    "segment.index.bytes": ("10485760", INT),
    "segment.jitter.ms": ("0", LONG),
    "segment.ms": ("604800000", LONG),
    "unclean.leader.election.enable": ("false", BOOLEAN),
}
