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
from kwire.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SEED = 20_261_129
STEPS = 250
"""Steps that each broker plays."""
KEEPER = member_id(98)
LOADED_MS = 3_000
OPENS, CLOSES = 0, -1


@pytest.mark.parametrize("kafka_first", [True, False], ids=["kafka-first", "tested-first"])
def test_random_members_go_on(tested, tmp_path, kafka_first):
    pair.create_in(tmp_path / "made")
    sides = [Exchanged(tmp_path / name, {**SETTINGS, **pair.SETTINGS}) for name in ("exchanged", "control")]
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
    for group in share_steps.FETCHED:
        beat = ShareGroupHeartbeatRequest(group_id=group, member_id=KEEPER, subscribed_topic_names=list(LASTING))
        assert player.ask(beat, 1).error_code == 0
        for topic in LASTING:
            for index in range(PARTITIONS[topic]):
                load(player, group, topic, index)


def load(player, group, topic, index):
    """Acquire the first available record of one partition, if there is one, and release it again."""
    places = [
        ShareFetchTopic(topic_id=player.known.topic_id(topic), partitions=[ShareFetchPartition(partition_index=index)])
    ]
    opens = ShareFetchRequest(
        group_id=group,
        member_id=KEEPER,
        share_session_epoch=OPENS,
        max_wait_ms=LOADED_MS,
        min_bytes=1,
        max_bytes=1,
        max_records=1,
        batch_size=1,
        share_acquire_mode=1,
        topics=places,
    )
    assert player.ask(opens, 2).error_code == 0
    closes = ShareFetchRequest(
        group_id=group,
        member_id=KEEPER,
        share_session_epoch=CLOSES,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[],
    )
    assert player.ask(closes, 2).error_code == 0
