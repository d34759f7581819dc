"""Which values the requests about groups and their offsets get.

A member is known by its group and a number; a broker's answer to its JoinGroup says what its id is from then on.
"""

from compat_tests.differential.chance import Chance
from compat_tests.differential.drawing import Rule, Scope
from compat_tests.differential.lazy import Known, Made
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


def member(chance: Chance, scope: Scope) -> object:
    if chance.often(0.05):
        return chance.choice(("", "nobody"))
    return Known(("member", scope.get("group_id"), chance.randrange(MEMBERS)), "")


def _generation(chance: Chance, scope: Scope) -> object:
    if chance.often(0.15):
        return chance.choice((-1, 0, 1, 2, 100, -2))
    return Known(("generation", scope.get("group_id")), -1)


def _instance(chance: Chance, scope: Scope) -> str | None:
    """Mostly the same members are static ones."""
    if chance.often(0.03):
        return chance.choice(("", *INSTANCES))
    named = scope.get("member_id")
    if isinstance(named, Known) and named.key[2] == 2:
        return INSTANCES[0]
    return None


def _protocols(chance: Chance, scope: Scope) -> int:
    return chance.choice((1, 1, 2)) if chance.often(0.97) else 0


def _metadata(chance: Chance, scope: Scope) -> object:
    if scope["protocol_type"] != "consumer":
        return b"any bytes"
    topics = tuple(chance.several(lambda: f"t{chance.randrange(4)}"))
    return Made(subscription, {"topics": topics, "note": chance.choice((0, 0, 0, 1))})


def _committed_metadata(chance: Chance, _: Scope) -> str | None:
    return chance.one_of((60, ""), (25, "note"), (5, None), (2, "x" * 4096), (2, "x" * 4097))


RULES: dict[str, Rule] = {
    "group_id": lambda chance, _: chance.group(),
    "DescribeGroupsRequest.groups": lambda chance, _: chance.several(chance.group),
    "groups_names": lambda chance, _: list(dict.fromkeys(chance.several(chance.group))),
    "member_id": member,
    "group_instance_id": _instance,
    "generation_id": _generation,
    "generation_id_or_member_epoch": lambda chance, scope: -1 if chance.often(0.5) else _generation(chance, scope),
    "OffsetCommitRequest.member_id": lambda chance, scope: (
        member(chance, scope) if isinstance(scope["generation_id_or_member_epoch"], Known) else ""
    ),
    "retention_time_ms": lambda chance, _: chance.choice((-1, -1, HALF_HOUR_MS)),
    "session_timeout_ms": lambda chance, _: chance.pick(
        (HALF_HOUR_MS, HALF_HOUR_MS - 1), (999, 0, -1, HALF_HOUR_MS + 1), 0.04
    ),
    "rebalance_timeout_ms": lambda chance, _: chance.choice((HALF_HOUR_MS, 2 * HALF_HOUR_MS)),
    "protocol_type": lambda chance, _: chance.pick(("consumer",), ("connect", "", "share"), 0.05),
    "JoinGroupRequest.protocols": _protocols,
    "JoinGroupRequestProtocol.name": lambda chance, _: chance.pick(("range", "roundrobin"), ("", "other"), 0.05),
    "JoinGroupRequestProtocol.metadata": _metadata,
    "SyncGroupRequest.protocol_name": lambda chance, _: chance.pick((None, "range"), ("other", ""), 0.1),
    "SyncGroupRequest.protocol_type": lambda chance, _: chance.pick((None, "consumer"), ("connect", ""), 0.1),
    "SyncGroupRequestAssignment.assignment": lambda chance, _: Made(assignment, {"note": chance.randrange(3)}),
    "reason": lambda chance, _: chance.choice((None, "because", "")),
    "states_filter": lambda chance, _: chance.choice(
        ([], [], ["Stable"], ["empty", "Dead"], ["PreparingRebalance"], ["What"])
    ),
    "types_filter": lambda chance, _: chance.choice(([], [], ["classic"], ["Consumer"], ["share"], ["what"])),
    "OffsetCommitRequestTopic.name": lambda chance, _: chance.topic(),
    "OffsetFetchRequestTopic.name": lambda chance, _: chance.topic(),
    "OffsetFetchRequestTopics.name": lambda chance, _: chance.topic(),
    "OffsetDeleteRequestTopic.name": lambda chance, _: chance.topic(),
    "committed_offset": lambda chance, _: chance.choice((0, 1, 5, 10**12, -1)),
    "committed_leader_epoch": lambda chance, _: chance.choice((-1, -1, 0, 5)),
    "committed_metadata": _committed_metadata,
    "OffsetFetchRequestGroup.member_id": lambda chance, scope: None if chance.often(0.8) else member(chance, scope),
    "OffsetFetchRequestGroup.member_epoch": lambda chance, _: chance.choice((-1, -1, -1, 0, 1)),
    "key": lambda chance, _: chance.group(),
    "coordinator_keys": lambda chance, _: chance.several(chance.group),
    "key_type": lambda chance, _: chance.one_of((88, 0), (6, 1), (3, 2), (2, 9), (1, -1)),
}
