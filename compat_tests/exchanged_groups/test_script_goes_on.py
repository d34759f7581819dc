"""The script of random members goes on while brokers exchange a directory, beside one that only Kafka serves."""

import shutil

import pytest

from compat_tests.exchanged_groups.directory import SETTINGS, Exchanged
from compat_tests.group_script import pair, share_steps
from compat_tests.group_script.known import member_id
from compat_tests.group_script.playing import play_on, players_of, wait_for_coordinators
from compat_tests.group_script.script import Script
from compat_tests.group_script.topics import LASTING, PARTITIONS
from compat_tests.harness.answers import Outcome
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SEED = 20_261_129
STEPS = 150
"""Steps that each broker plays."""
KEEPER = member_id(98)
FIRST_HOLDER = 60
"""Number of the first member that keeps a share partition loaded."""
LOADED_MS = 500
MORE_SETTINGS = {
    **SETTINGS,
    **pair.SETTINGS,
    # Brokers may store several changes with one record, so that snapshots would come at different ones.
    "share.coordinator.snapshot.update.records.per.snapshot": "500",
}


@pytest.mark.parametrize("kafka_first", [True, False], ids=["kafka-first", "tested-first"])
def test_random_members_go_on(tested, tmp_path, kafka_first):
    pair.create_in(tmp_path / "made")
    sides = [Exchanged(tmp_path / name, MORE_SETTINGS) for name in ("exchanged", "control")]
    kinds = ("kafka", tested, "kafka") if kafka_first else (tested, "kafka", tested)
    outcome, script, players = Outcome(), Script(SEED), []
    try:
        for side in sides:
            shutil.copytree(tmp_path / "made" / "data", side.home / "data", ignore=shutil.ignore_patterns(".lock"))
        for stage, kind in enumerate(kinds):
            bootstraps = [side.serve(each).bootstrap for side, each in zip(sides, (kind, "kafka"), strict=True)]
            players = players or players_of(*bootstraps)
            for player in players:
                connect(player)
            play_on(players, script, outcome, STEPS * (stage + 1), most=5)
            assert outcome.differences == []
            for side in sides:
                side.end(clean=False)
    finally:
        for side in sides:
            side.end(clean=False)
    assert outcome.played == STEPS * len(kinds)


def connect(player):
    """Connect to the next broker, wait for its coordinators, and let it load the states of the share partitions."""
    for slot in list(player.side.connections):
        player.side.drop(slot)
    wait_for_coordinators(player)
    places = [(topic, index) for topic in LASTING for index in range(PARTITIONS[topic])]
    for group in share_steps.FETCHED:
        beat = ShareGroupHeartbeatRequest(group_id=group, member_id=KEEPER, subscribed_topic_names=list(LASTING))
        assert player.ask(beat, 1).error_code == 0
        for number, (topic, index) in enumerate(places):
            keep(player, group, member_id(FIRST_HOLDER + number), topic, index)


def keep(player, group, name, topic, index):
    """Open a session with one partition, which stays open, and release the records that it has acquired.

    Without a session, Kafka would choose the first offset of a group at the latest record again: docs/differences.md.
    """
    topic_id = player.known.topic_id(topic)
    partitions = [ShareFetchPartition(partition_index=index)]
    opens = ShareFetchRequest(
        group_id=group,
        member_id=name,
        share_session_epoch=0,
        max_wait_ms=LOADED_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=500,
        batch_size=1,
        topics=[ShareFetchTopic(topic_id=topic_id, partitions=partitions)],
    )

    def is_loaded():
        found = player.ask(opens, 2)
        return [each.error_code for places in found.responses for each in places.partitions] == [0] and found

    answer = eventually(is_loaded, f"the state of {group} in {topic}-{index}")
    batches = [
        ShareAcknowledgementBatch(
            first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=[share_steps.RELEASE]
        )
        for found in answer.responses
        for partition in found.partitions
        for each in partition.acquired_records
    ]
    if batches:
        released = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        topics = [AcknowledgeTopic(topic_id=topic_id, partitions=[released])]
        request = ShareAcknowledgeRequest(group_id=group, member_id=name, share_session_epoch=1, topics=topics)
        assert player.ask(request, 2).error_code == 0
