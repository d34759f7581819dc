"""Pitfall 9: CreateTopics and CreatePartitions return a result per topic, can validate only, and describe topics."""

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def wanted(name, partitions=1, assignments=(), **configs):
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else 1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(assignments)
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(peer, *topics, version=7, validate_only=False):
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
    return {each.name: each for each in peer.ask(request, version).topics}


@pytest.mark.short
@pytest.mark.parametrize("version", range(2, 8))
def test_valid_and_invalid_topics_of_one_request_have_their_own_codes(peer, unique, version):
    good, bad, invalid = unique("good"), unique("bad"), "in/valid"
    answer = create(
        peer, wanted(good, 2, retention_ms="1000"), wanted(bad, no_such="1"), wanted(invalid), version=version
    )
    assert {name: each.error_code for name, each in answer.items()} == {
        good: 0,
        bad: ErrorCode.INVALID_CONFIG,
        invalid: ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert answer[bad].error_message
    if version >= 5:
        assert (answer[good].num_partitions, answer[good].replication_factor) == (2, 1)
        assert (answer[bad].num_partitions, answer[bad].replication_factor) == (-1, -1)
        configs = {each.name: each for each in answer[good].configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
        assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
    if version >= 7:
        assert answer[good].topic_id.int != 0
        assert answer[bad].topic_id.int == 0
    eventually(lambda: len(peer.leaders(good)) == 2, "the good topic")
    assert peer.describe(bad).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_named_twice_is_rejected_both_times(peer, topic):
    answer = peer.ask(CreateTopicsRequest(topics=[wanted(topic), wanted(topic)], timeout_ms=5000), 7)
    assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_REQUEST}
    assert peer.describe(topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_validate_only_returns_errors_and_creates_no_topic(peer, topic, unique):
    bad = unique("bad")
    answer = create(peer, wanted(topic, 3), wanted(bad, retention_ms="soon"), validate_only=True)
    assert (answer[topic].error_code, answer[topic].num_partitions) == (0, 3)
    assert answer[bad].error_code == ErrorCode.INVALID_CONFIG
    assert peer.describe(topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_may_be_placed_by_hand(peer, topic, unique):
    bad = unique("bad")
    answer = create(peer, wanted(topic, assignments=[[1], [1]]), wanted(bad, assignments=[[1, 1]]))
    assert (answer[topic].error_code, answer[topic].num_partitions) == (0, 2)
    assert answer[bad].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_defaults_are_asked_for_with_minus_one(peer, topic):
    request = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
    assert (create(peer, request)[topic].num_partitions, create(peer, request)[topic].error_code) == (
        1,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )


@pytest.mark.short
@pytest.mark.parametrize("version", range(4))
def test_partitions_are_answered_topic_by_topic(peer, unique, version):
    names = [unique(role) for role in ("grown", "shrunk", "same", "unknown", "checked")]
    for name in names[:3]:
        peer.create_topic(name, 2)
    counts = dict(zip(names, (3, 1, 2, 2), strict=False))
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    answer = peer.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5000), version)
    results = {each.name: (each.error_code, each.error_message is None) for each in answer.results}
    assert results == {
        names[0]: (0, True),
        names[1]: (ErrorCode.INVALID_PARTITIONS, False),
        names[2]: (ErrorCode.INVALID_PARTITIONS, False),
        names[3]: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    }
    eventually(lambda: len(peer.leaders(names[0])) == 3, "the third partition")


def test_partitions_are_only_validated_when_asked(peer, topic):
    peer.create_topic(topic)
    wrong = CreatePartitionsTopic(name=topic, count=2, assignments=[CreatePartitionsAssignment(broker_ids=[9])])
    right = CreatePartitionsTopic(name=topic, count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])])
    for each, code in ((wrong, ErrorCode.INVALID_REPLICA_ASSIGNMENT), (right, 0)):
        request = CreatePartitionsRequest(topics=[each], timeout_ms=5000, validate_only=True)
        assert peer.ask(request, 3).results[0].error_code == code
    assert len(peer.describe(topic).partitions) == 1
