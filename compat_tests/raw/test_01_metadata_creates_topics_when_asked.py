"""Pitfall 1: Metadata creates an unknown topic only if the request allows it."""

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.mark.short
@pytest.mark.parametrize("version", [4, 8, 9, 10, 12, 13])
def test_an_unknown_topic_is_created_and_has_a_leader_within_a_retry(peer, topic, version):
    first = peer.describe(topic, create=True, version=version)
    assert first.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    described = eventually(
        lambda: (found := peer.describe(topic, create=True, version=version)).error_code == 0 and found, "the topic"
    )
    assert [(each.partition_index, each.leader_id) for each in described.partitions] == [(0, 1)]


@pytest.mark.parametrize("version", [4, 13])
def test_an_unknown_topic_is_not_created_when_that_is_forbidden(peer, topic, version):
    for _ in range(2):
        described = peer.describe(topic, create=False, version=version)
        assert (described.error_code, described.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


@pytest.mark.parametrize("name", ["a/b", ".", "x" * 250])
def test_invalid_and_unknown_names_have_different_codes(peer, name):
    assert peer.describe(name, create=True).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_null_means_all_topics_and_empty_means_none(peer, topic):
    peer.create_topic(topic)
    for version in (1, 9, 13):
        everything = peer.ask(MetadataRequest(topics=None), version)
        assert topic in {each.name for each in everything.topics}
        assert peer.ask(MetadataRequest(topics=[]), version).topics == []
    assert topic in {each.name for each in peer.ask(MetadataRequest(topics=[]), 0).topics}


def test_every_version_names_the_broker_the_controller_and_the_cluster(peer, bootstrap):
    host, port = bootstrap.split(":")
    for version in range(14):
        answer = peer.ask(MetadataRequest(topics=[]), version)
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, host, int(port))]
        if version >= 1:
            assert answer.controller_id == 1
        if version >= 2:
            assert len(answer.cluster_id) == 22


def test_one_request_may_name_known_and_unknown_topics(peer, topic, unique):
    peer.create_topic(topic)
    names = [topic, unique("unknown")]
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    answer = peer.ask(request, 9)
    assert {each.name: each.error_code for each in answer.topics} == {names[0]: 0, names[1]: 3}
