"""Cluster APIs on a single broker: its quorum of one voter, its features, and its resources with configurations."""

import pytest

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.short

METADATA = "__cluster_metadata"
INVALID_UPDATE_VERSION = 95
UNKNOWN_TOPIC_OR_PARTITION = 3
UNSUPPORTED_VERSION = 35
FAILED = "The update failed for all features since the following feature had an error: "


def describe(peer, *topics, version=2):
    asked = [
        DescribeQuorumRequestTopicData(
            topic_name=name, partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in indexes]
        )
        for name, indexes in topics
    ]
    return peer.ask(DescribeQuorumRequest(topics=asked), version)


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described(peer, topic, version):
    peer.create_topic(topic)
    answer = describe(peer, (METADATA, [0]), version=version)
    assert (answer.error_code, answer.error_message or "") == (0, "")
    (partition,) = answer.topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.error_code, partition.leader_id, voter.replica_id, partition.observers) == (0, 1, 1, [])
    assert partition.leader_epoch >= 1
    assert 0 < partition.high_watermark <= voter.log_end_offset
    if version == 0:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (-1, -1)
    else:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 1_700_000_000_000
    if version == 2:
        assert voter.replica_directory_id.int > 1000
        (node,) = answer.nodes
        assert (node.node_id, [end.name for end in node.listeners]) == (1, ["CONTROLLER"])


@pytest.mark.parametrize(
    "topics",
    [[], [(METADATA, [])], [("x", [0])], [(METADATA, [1])], [(METADATA, [0, 0])], [(METADATA, [0]), ("x", [0])]],
)
def test_describe_quorum_of_other_partitions_returns_unknown_partition(peer, topics):
    answer = describe(peer, *topics)
    assert answer.error_code == 0
    assert [(each.topic_name, [one.partition_index for one in each.partitions]) for each in answer.topics] == topics
    for each in answer.topics:
        for one in each.partitions:
            assert one.error_code == UNKNOWN_TOPIC_OR_PARTITION
            assert one.error_message == "This server does not host this topic-partition."


def update(peer, *updates, version=2):
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, **({} if version == 0 else {"upgrade_type": kind}))
        for name, level, kind in updates
    ]
    return peer.ask(UpdateFeaturesRequest(feature_updates=keys), version)


@pytest.mark.parametrize("version", range(3))
def test_updating_features_to_their_levels_succeeds(peer, version):
    nothing = update(peer, version=version)
    assert (nothing.error_code, nothing.error_message, nothing.results) == (0, None, [])
    wishes = [("metadata.version", 30, 1), ("kraft.version", 1, 1), ("metadata.version", 30, 1)]
    same = update(peer, *wishes, version=version)
    assert (same.error_code, same.error_message) == (0, None)
    shown = [(each.feature, each.error_code, each.error_message) for each in same.results]
    assert shown == ([(name, 0, "NONE") for name, _, _ in wishes] if version < 2 else [])


@pytest.mark.parametrize(
    ("requested", "why"),
    [
        (("kraft.version", 2, 1), "Local controller 1 only supports versions 0-1"),
        (("kraft.version", 0, 2), "Can't downgrade the version of this feature."),
        (("metadata.version", -1, 1), "A feature version cannot be less than 0."),
        (("metadata.version", 30, 0), "The controller does not support the given upgrade type."),
        (("metadata.version", 30, 4), "The controller does not support the given upgrade type."),
        (("never.heard", 1, 1), "Local controller 1 does not support this feature."),
        (("never.heard", 0, 2), "Feature never.heard not found."),
        (("", 1, 1), "Local controller 1 does not support this feature."),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_invalid_feature_levels_are_rejected(peer, requested, why, version):
    answer = update(peer, ("kraft.version", 1, 1), requested, version=version)
    assert (answer.error_code, answer.results) == (INVALID_UPDATE_VERSION, [])
    assert answer.error_message == f"{FAILED}Invalid update version {requested[1]} for feature {requested[0]}. {why}"


@pytest.mark.parametrize("level", [0, 6, 31])
def test_metadata_versions_out_of_range(peer, level):
    """Kafka supports older metadata versions than kwire: between their minimums only the error code is the same."""
    answer = update(peer, ("metadata.version", level, 1))
    assert answer.error_code == INVALID_UPDATE_VERSION
    assert "Local controller 1 only supports versions" in answer.error_message


def test_resources_are_listed_by_type(peer, topic):
    peer.create_topic(topic)

    def listed(*kinds, version=1):
        answer = peer.ask(ListConfigResourcesRequest(**({"resource_types": list(kinds)} if version else {})), version)
        return answer.error_code or {(each.resource_type, each.resource_name) for each in answer.config_resources}

    assert (2, topic) in listed(2)
    assert listed(4, 4) == {(4, "1")}
    assert listed(8) == {(8, "1")}
    assert listed() >= {(2, topic), (4, "1"), (8, "1")}
    assert listed(version=0) == listed(16) == set()
    assert [listed(kind) for kind in (0, 1, 3, 99)] == [UNSUPPORTED_VERSION] * 4


def test_telemetry_is_not_offered(peer):
    offered = {each.api_key for each in peer.ask(ApiVersionsRequest(), 0).api_keys}
    assert offered.isdisjoint({71, 72})
    assert {43, 45, 46, 48, 49, 55, 57, 74} <= offered
