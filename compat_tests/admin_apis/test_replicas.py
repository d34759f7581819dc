"""Elections, reassignments and log directories on a single broker."""

import pytest

from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

pytestmark = pytest.mark.short

ELECTION_NOT_NEEDED, NOT_UNDER_WAY, UNKNOWN, INVALID_ASSIGNMENT, NO_DIRECTORY = 84, 85, 3, 39, 57
NEVER_MADE = "never-made"


def elect(peer, wanted, *, version=2, **more):
    asked = None
    if wanted is not None:
        asked = [ElectLeadersTopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted]
    return peer.ask(ElectLeadersRequest(topic_partitions=asked, **more), version)


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_returns_election_not_needed(peer, topic, version):
    peer.create_topic(topic, partitions=2)
    answer = elect(peer, [(topic, [0, 1, 7]), (NEVER_MADE, [0])], version=version)
    found = {
        (each.topic, one.partition_id): (one.error_code, one.error_message)
        for each in answer.replica_election_results
        for one in each.partition_result
    }
    not_needed = (ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    assert found == {
        (topic, 0): not_needed,
        (topic, 1): not_needed,
        (topic, 7): (UNKNOWN, f"No such partition as {topic}-7"),
        (NEVER_MADE, 0): (UNKNOWN, f"No such topic as {NEVER_MADE}"),
    }


def test_elections_of_all_and_of_an_unknown_kind(peer, topic):
    peer.create_topic(topic)
    everything = {each.topic: each.partition_result for each in elect(peer, None).replica_election_results}
    assert everything[topic] == []
    assert elect(peer, []).replica_election_results == []
    odd = elect(peer, [(topic, [0])], election_type=5)
    (one,) = odd.replica_election_results[0].partition_result
    assert (odd.error_code, one.error_code, one.error_message) == (42, 42, "Unknown election type 5")


@pytest.mark.parametrize(
    ("index", "replicas", "code", "message"),
    [
        (0, [1], 0, None),
        (0, None, NOT_UNDER_WAY, None),
        (9, [1], UNKNOWN, "Unable to find partition {topic}:9."),
        (9, None, UNKNOWN, "Unable to find partition {topic}:9."),
        (0, [2], INVALID_ASSIGNMENT, "includes broker 2, but no such broker is registered."),
        (0, [1, 2], INVALID_ASSIGNMENT, "includes broker 2, but no such broker is registered."),
        (0, [-1], INVALID_ASSIGNMENT, "includes broker -1, but no such broker is registered."),
        (0, [1, 1], INVALID_ASSIGNMENT, "includes the broker 1 more than once."),
        (0, [], INVALID_ASSIGNMENT, "includes an empty replica list."),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_alter_partition_reassignments_has_kafkas_error_codes(peer, topic, version, index, replicas, code, message):
    peer.create_topic(topic)
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas)]
    topics = [ReassignableTopic(name=name, partitions=partitions) for name in (topic, NEVER_MADE)]
    answer = peer.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    found = {each.name: each.partitions[0] for each in answer.responses}
    assert found[topic].error_code == code
    assert (found[topic].error_message is None) == (message is None)
    assert message is None or found[topic].error_message.endswith(message.format(topic=topic))
    assert found[NEVER_MADE].error_message == f"Unable to find a topic named {NEVER_MADE}."


def test_list_partition_reassignments_is_empty(peer, topic):
    peer.create_topic(topic)
    for topics in (None, [], [topic], [NEVER_MADE]):
        asked = topics and [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in topics]
        answer = peer.ask(ListPartitionReassignmentsRequest(topics=asked), 0)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@pytest.mark.parametrize("version", [1, 2])
def test_alter_replica_log_dirs_to_the_current_directory_succeeds(peer, topic, version):
    peer.create_topic(topic)
    (directory,) = peer.ask(DescribeLogDirsRequest(topics=None), 4).results

    def move(path, name, index):
        topics = [AlterReplicaLogDirTopic(name=name, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        (result,) = peer.ask(request, version).results
        return result.topic_name == name and result.partitions[0].error_code

    assert move(directory.log_dir, topic, 0) == 0
    assert move(directory.log_dir, topic, 5) == UNKNOWN
    assert move(directory.log_dir, NEVER_MADE, 0) == UNKNOWN
    assert move("/no/such/directory", topic, 0) == NO_DIRECTORY
    assert move("relative", NEVER_MADE, 0) == NO_DIRECTORY
