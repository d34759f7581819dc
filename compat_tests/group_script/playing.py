"""Player of a script: sends each request to both brokers, and compares their responses, groups and records.

Some work follows a response: regular expressions are resolved, share partitions are initialised, internal topics are
created. After each step the descriptions of its group must therefore become equal, not be equal at once.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any
from uuid import UUID

from compat_tests.differential.wire import Side
from compat_tests.group_script import share_steps
from compat_tests.group_script.known import CONSUMER, SHARE, Known, Step, member_id
from compat_tests.group_script.script import ALL_GROUPS, Script
from compat_tests.group_script.stored import stored
from compat_tests.group_script.topics import LASTING, PARTITIONS
from compat_tests.harness.answers import Outcome, apart, codes
from compat_tests.harness.waiting import eventually
from kwire.coordinator.share.keys import ShareKey
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from kwire.protocol.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.protocol.records import iterate_headers

SETTLE_SECONDS = 3.0
NOT_READY = {14, 15, 16}
SHARE_COORDINATOR = 2
KEEPER = member_id(99)
NOT_COMPARED = {
    *(
        "throttle_time_ms",
        "error_message",
        "acknowledge_error_message",
        "host",
        "port",
        "node_id",
        "leader_id",
        "leader_epoch",
        "status_detail",
    ),
    "state_changelog_topics",  # Kafka describes their numbers of partitions only after the next record
}


@dataclass(slots=True)
class Player:
    """Broker with the values from its responses."""

    side: Side
    known: Known = field(default_factory=Known)

    def ask(self, request: Any, version: int) -> Any:
        return self.side.ask(request, version)

    def look_up_topics(self) -> set[tuple[str, int]]:
        """Learn the topic ids; return the topics with the numbers of their partitions."""
        topics = self.ask(MetadataRequest(topics=None), 12).topics
        self.known.topic_ids = {each.name: each.topic_id for each in topics}
        return {(each.name, len(each.partitions)) for each in topics if not each.name.startswith("__")}

    def plain(self, value: Any, name: str = "") -> Any:
        """Return the value without what may differ: order, messages, and topic ids, which become names."""
        if name in NOT_COMPARED:
            return None
        if isinstance(value, UUID):
            return self.known.topic_name(value)
        if name == "records":
            return [header.base_offset for _, header in iterate_headers(value or b"")]
        if isinstance(value, ShareFetchableTopicResponse):
            # Kafka names partitions without a result once; when, depends on how fast they are initialised.
            value.partitions = [
                each
                for each in value.partitions
                if each.error_code or each.acknowledge_error_code or each.acquired_records
            ]
        if is_dataclass(value):
            return {each.name: self.plain(getattr(value, each.name), each.name) for each in fields(value)}
        if isinstance(value, list | tuple):
            plain = [self.plain(each) for each in value]
            return sorted(filter(_says_something, plain), key=lambda each: json.dumps(each, default=str))
        return value

    def described(self, groups: Sequence[str]) -> Any:
        """Return the state of the groups."""
        return [self.plain(each) for group in groups for each in self._describe(group)]

    def _describe(self, group: str) -> Iterator[Any]:
        if group.startswith(CONSUMER):
            yield self.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
        elif group.startswith(SHARE):
            yield self.ask(ShareGroupDescribeRequest(group_ids=[group]), 1)
            asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
            yield self.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        else:
            yield self.ask(StreamsGroupDescribeRequest(group_ids=[group]), 0)


def play(kwire: str, kafka: str, seed: int, count: int, *, most: int, tell: Callable[[str], None] = print) -> Outcome:
    outcome = Outcome()
    players = players_of(kwire, kafka)
    for player in players:
        wait_for_coordinators(player)
        for group in share_steps.FETCHED:
            _keep(player, group)
    play_on(players, Script(seed), outcome, count, most=most, tell=tell)
    return outcome


def players_of(kwire: str, kafka: str) -> list[Player]:
    return [Player(Side(name=name, bootstrap=at)) for name, at in (("kwire", kwire), ("kafka", kafka))]


def play_on(
    players: list[Player],
    script: Script,
    outcome: Outcome,
    count: int,
    *,
    most: int,
    tell: Callable[[str], None] = print,
) -> None:
    """Play steps until `count` were played in all, then compare the stored records."""
    while outcome.played < count and len(outcome.differences) < most:
        step, request_seed = script.next()
        requests, answers = zip(*(_played(player, step, request_seed) for player in players), strict=True)
        outcome.played += 1
        outcome.without_error += not codes(answers[0])
        shown = [player.plain(answer) for player, answer in zip(players, answers, strict=True)]
        lines = "".join(apart(shown[0], shown[1])) + _unequal_groups(players, step)
        if lines:
            text = f"step {outcome.played}, version {step.version}: {requests[0]}{lines}"
            outcome.differences.append(text)
            tell(text)
    for text in stored(players):
        outcome.differences.append(text)
        tell(text)


def _says_something(plain: Any) -> bool:
    """Return False for a topic without partitions."""
    return not isinstance(plain, dict) or plain.get("partitions") != []


def _played(player: Player, step: Step, seed: int) -> tuple[Any, Any]:
    request = step.build(player.known, random.Random(seed))
    answer = player.ask(request, step.version)
    step.learn(player.known, request, answer)
    return request, answer


def _unequal_groups(players: list[Player], step: Step) -> str:
    """Return the differences of the step's groups that last, and of topics and all groups if topics have changed."""
    groups = ALL_GROUPS if step.changes_topics else step.groups
    if not groups:
        return ""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        topics = [player.look_up_topics() for player in players]
        shown = [player.described(groups) for player in players]
        if topics[0] == topics[1] and shown[0] == shown[1]:
            return ""
        if time.monotonic() > deadline:
            return "".join(
                [*apart(sorted(topics[0]), sorted(topics[1]), "topics"), *apart(shown[0], shown[1], "group")]
            )
        time.sleep(0.05)


def wait_for_coordinators(player: Player) -> None:
    player.look_up_topics()

    def is_ready() -> bool:
        found = player.ask(FindCoordinatorRequest(coordinator_keys=list(ALL_GROUPS)), 6).coordinators
        asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in ALL_GROUPS]
        loaded = [each.error_code for each in player.ask(OffsetFetchRequest(groups=asked), 8).groups]
        return not any(each.error_code for each in found) and not {*loaded, *_states_read(player)} & NOT_READY

    eventually(is_ready, f"the coordinators of {player.side.name}", 60)


def _keep(player: Player, group: str) -> None:
    """Let a member with a session stay in a share group, so that the script finds the share partitions initialised."""
    beat = ShareGroupHeartbeatRequest(group_id=group, member_id=KEEPER, subscribed_topic_names=list(LASTING))
    eventually(lambda: player.ask(beat, 1).error_code == 0, f"the keeper of {group} joins {player.side.name}")
    places = [
        ShareFetchTopic(
            topic_id=player.known.topic_id(topic),
            partitions=[ShareFetchPartition(partition_index=index) for index in range(PARTITIONS[topic])],
        )
        for topic in LASTING
    ]
    opens = ShareFetchRequest(
        group_id=group,
        member_id=KEEPER,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        max_records=1,
        batch_size=1,
        topics=places,
    )

    def is_initialised() -> bool:
        answer = player.ask(opens, 2)
        found = [each.error_code for topic in answer.responses for each in topic.partitions]
        return found == [0] * sum(PARTITIONS[topic] for topic in LASTING)

    eventually(is_initialised, f"the share partitions of {group} on {player.side.name}")


def _states_read(player: Player) -> Iterator[int]:
    """Yield the error code of each share partition's state, which has not been initialised."""
    for group in share_steps.GROUPS:
        for topic, count in PARTITIONS.items():
            topic_id = player.known.topic_id(topic)
            keys = [ShareKey(group, topic_id, index).coordinator_key for index in range(count)]
            request = FindCoordinatorRequest(key_type=SHARE_COORDINATOR, coordinator_keys=keys)
            yield from (each.error_code for each in player.ask(request, 6).coordinators)
            partitions = [ReadShareGroupStatePartitionData(partition=index) for index in range(count)]
            topics = [ReadStateData(topic_id=topic_id, partitions=partitions)]
            (answer,) = player.ask(ReadShareGroupStateRequest(group_id=group, topics=topics), 0).results
            yield from (each.error_code for each in answer.partitions)
