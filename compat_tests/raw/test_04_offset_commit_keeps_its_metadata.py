"""Pitfall 4: OffsetFetch returns what was committed, including metadata and leader epoch."""

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


@pytest.fixture
def coordinated(peer, group):
    """Return the group's name after its coordinator is available."""
    request = FindCoordinatorRequest(coordinator_keys=[group])
    eventually(lambda: peer.ask(request, 6).coordinators[0].error_code == 0, "the coordinator")
    return group


def commit(peer, group, topic, topic_id, version, *, offset=7, epoch=3, metadata="a note", **member):
    wanted = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
    )
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[wanted])]
    answer = peer.ask(OffsetCommitRequest(group_id=group, topics=topics, **member), version)
    return answer.topics[0].partitions[0].error_code


def settled_commit(*arguments, **settings):
    """Commit offsets; retry while the coordinator is still loading its partition."""
    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

    def answers():
        return [code for code in (commit(*arguments, **settings),) if code not in loading]

    return eventually(answers, "an answer")[0]


def fetch(peer, group, topic, topic_id, version):
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        return peer.ask(OffsetFetchRequest(group_id=group, topics=topics), version).topics[0].partitions[0]
    topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    return peer.ask(request, version).groups[0].topics[0].partitions[0]


@pytest.mark.short
@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits_metadata_that_every_version_reads(peer, topic, coordinated, version):
    topic_id = peer.create_topic(topic)
    assert settled_commit(peer, coordinated, topic, topic_id, version) == 0
    for reader in range(1, 11):
        found = fetch(peer, coordinated, topic, topic_id, reader)
        assert (found.error_code, found.committed_offset, found.metadata) == (0, 7, "a note")
        if reader >= 5:
            assert found.committed_leader_epoch == (3 if version >= 6 else -1)


def test_null_metadata_comes_back_empty(peer, topic, coordinated):
    topic_id = peer.create_topic(topic)
    assert settled_commit(peer, coordinated, topic, topic_id, 8, metadata=None) == 0
    assert fetch(peer, coordinated, topic, topic_id, 8).metadata == ""


def test_metadata_that_is_too_long_is_rejected(peer, topic, coordinated):
    topic_id = peer.create_topic(topic)
    assert settled_commit(peer, coordinated, topic, topic_id, 8, metadata="x" * 4096) == 0
    rejected = settled_commit(peer, coordinated, topic, topic_id, 8, metadata="x" * 4097)
    assert rejected == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_partition_without_commit_has_no_offset(peer, topic, coordinated):
    topic_id = peer.create_topic(topic)
    for version in range(1, 11):
        found = fetch(peer, coordinated, topic, topic_id, version)
        assert (found.error_code, found.committed_offset, found.metadata) == (0, -1, "")


def test_members_that_do_not_exist_cannot_commit(peer, topic, coordinated):
    topic_id = peer.create_topic(topic)
    member = {"member_id": "nobody", "generation_id_or_member_epoch": 1}
    assert settled_commit(peer, coordinated, topic, topic_id, 8, **member) == ErrorCode.ILLEGAL_GENERATION
    assert settled_commit(peer, coordinated, topic, topic_id, 8) == 0
    assert settled_commit(peer, coordinated, topic, topic_id, 8, **member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_unknown_topics_cannot_be_committed(peer, topic, coordinated, unique):
    topic_id = peer.create_topic(topic)
    rejected = settled_commit(peer, coordinated, unique("unknown"), topic_id, 8)
    assert rejected == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
