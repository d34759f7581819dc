"""Rules for values of requests about groups and their offsets.

A member has a group and a number; the JoinGroup response of a broker gives its member id for later requests.
"""

from compat_tests.differential.drawing import Rule, Scope
from compat_tests.differential.lazy import Known, Made
from compat_tests.differential.random_source import RandomSource
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_consumer_protocol,
)

HALF_HOUR_MS = 1_800_000
MEMBERS = 3
INSTANCES = ("i-1", "i-2")


def subscription(topics: tuple[str, ...], note: int) -> bytes:
    return encode_consumer_protocol(ConsumerProtocolSubscription(topics=list(topics), user_data=b"%d" % note))


def assignment(note: int) -> bytes:
    return encode_consumer_protocol(ConsumerProtocolAssignment(user_data=b"%d" % note))


def member(random_source: RandomSource, scope: Scope) -> object:
    if random_source.often(0.05):
        return random_source.choice(("", "nobody"))
    return Known(("member", scope.get("group_id"), random_source.randrange(MEMBERS)), "")


def _generation(random_source: RandomSource, scope: Scope) -> object:
    if random_source.often(0.15):
        return random_source.choice((-1, 0, 1, 2, 100, -2))
    return Known(("generation", scope.get("group_id")), -1)


def _instance(random_source: RandomSource, scope: Scope) -> str | None:
    """Return an instance id or None; mostly the same members are static."""
    if random_source.often(0.03):
        return random_source.choice(("", *INSTANCES))
    named = scope.get("member_id")
    if isinstance(named, Known) and named.key[2] == 2:
        return INSTANCES[0]
    return None


def _protocols(random_source: RandomSource, scope: Scope) -> int:
    return random_source.choice((1, 1, 2)) if random_source.often(0.97) else 0


def _metadata(random_source: RandomSource, scope: Scope) -> object:
    if scope["protocol_type"] != "consumer":
        return b"any bytes"
    topics = tuple(random_source.several(lambda: f"t{random_source.randrange(4)}"))
    return Made(subscription, {"topics": topics, "note": random_source.choice((0, 0, 0, 1))})


def _committed_metadata(random_source: RandomSource, _: Scope) -> str | None:
    return random_source.one_of((60, ""), (25, "note"), (5, None), (2, "x" * 4096), (2, "x" * 4097))


RULES: dict[str, Rule] = {
    "StreamsGroupHeartbeatTopicInfo.partitions": lambda random_source, _: random_source.choice((0, 1, 2)),
    "group_id": lambda random_source, _: random_source.group(),
    "DescribeGroupsRequest.groups": lambda random_source, _: random_source.several(random_source.group),
    "groups_names": lambda random_source, _: list(dict.fromkeys(random_source.several(random_source.group))),
    "member_id": member,
    "group_instance_id": _instance,
    "generation_id": _generation,
    "generation_id_or_member_epoch": lambda random_source, scope: (
        -1 if random_source.often(0.5) else _generation(random_source, scope)
    ),
    "OffsetCommitRequest.member_id": lambda random_source, scope: (
        member(random_source, scope) if isinstance(scope["generation_id_or_member_epoch"], Known) else ""
    ),
    "retention_time_ms": lambda random_source, _: random_source.choice((-1, -1, HALF_HOUR_MS)),
    "session_timeout_ms": lambda random_source, _: random_source.pick(
        (HALF_HOUR_MS, HALF_HOUR_MS - 1), (999, 0, -1, HALF_HOUR_MS + 1), 0.04
    ),
    "rebalance_timeout_ms": lambda random_source, _: random_source.choice((HALF_HOUR_MS, 2 * HALF_HOUR_MS)),
    "protocol_type": lambda random_source, _: random_source.pick(("consumer",), ("connect", "", "share"), 0.05),
    "JoinGroupRequest.protocols": _protocols,
    "JoinGroupRequestProtocol.name": lambda random_source, _: random_source.pick(
        ("range", "roundrobin"), ("", "other"), 0.05
    ),
    "JoinGroupRequestProtocol.metadata": _metadata,
    "SyncGroupRequest.protocol_name": lambda random_source, _: random_source.pick((None, "range"), ("other", ""), 0.1),
    "SyncGroupRequest.protocol_type": lambda random_source, _: random_source.pick(
        (None, "consumer"), ("connect", ""), 0.1
    ),
    "SyncGroupRequestAssignment.assignment": lambda random_source, _: Made(
        assignment, {"note": random_source.randrange(3)}
    ),
    "reason": lambda random_source, _: random_source.choice((None, "because", "")),
    "states_filter": lambda random_source, _: random_source.choice(
        ([], [], ["Stable"], ["empty", "Dead"], ["PreparingRebalance"], ["What"])
    ),
    "types_filter": lambda random_source, _: random_source.choice(
        ([], [], ["classic"], ["Consumer"], ["share"], ["what"])
    ),
    "OffsetCommitRequestTopic.name": lambda random_source, _: random_source.topic(),
    "OffsetFetchRequestTopic.name": lambda random_source, _: random_source.topic(),
    "OffsetFetchRequestTopics.name": lambda random_source, _: random_source.topic(),
    "OffsetDeleteRequestTopic.name": lambda random_source, _: random_source.topic(),
    "committed_offset": lambda random_source, _: random_source.choice((0, 1, 5, 10**12, -1)),
    "committed_leader_epoch": lambda random_source, _: random_source.choice((-1, -1, 0, 5)),
    "committed_metadata": _committed_metadata,
    "OffsetFetchRequestGroup.member_id": lambda random_source, scope: (
        None if random_source.often(0.8) else member(random_source, scope)
    ),
    "OffsetFetchRequestGroup.member_epoch": lambda random_source, _: random_source.choice((-1, -1, -1, 0, 1)),
    "key": lambda random_source, _: random_source.group(),
    "coordinator_keys": lambda random_source, _: random_source.several(random_source.group),
    "key_type": lambda random_source, _: random_source.one_of((88, 0), (6, 1), (3, 2), (2, 9), (1, -1)),
}
