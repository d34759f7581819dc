"""Scenes of classic members: in a classic group with a static member, and in a consumer group."""

from typing import Any

from compat_tests.exchanged_groups.asking import Asker, accepted
from compat_tests.exchanged_groups.consumers import TOPIC
from compat_tests.exchanged_groups.members import ConsumerMember, settle
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.harness.waiting import eventually
from compat_tests.raw.group_member import GroupMember
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_consumer_protocol,
    encode_consumer_protocol,
)

PARTS = {"dynamic": b"part of the dynamic member", "static": b"part of the static member"}
SESSION_MS = REBALANCE_MS = 300_000


def new_member(asker: Asker, group: str, instance: str | None = None, topics: Any = ()) -> GroupMember:
    metadata = encode_consumer_protocol(ConsumerProtocolSubscription(topics=list(topics)))
    member = GroupMember(
        asker.bootstrap, group, instance=instance, protocols=[("range", metadata)], session_ms=SESSION_MS
    )
    member.rebalance_ms = REBALANCE_MS
    return member


def moved(asker: Asker, member: GroupMember) -> GroupMember:
    """Return the member with a connection to the next broker; it keeps its id and generation."""
    member.close()
    again = GroupMember(asker.bootstrap, member.group, instance=member.instance, session_ms=member.session_ms)
    again.protocols, again.member_id, again.generation = member.protocols, member.member_id, member.generation
    again.leader = member.leader
    return again


class Classic(Scene):
    """Classic group with a dynamic leader and a static member. A third member joins when the last exchange begins."""

    groups = ("classic-members",)
    third: GroupMember | None = None

    def begin(self) -> None:
        (group,) = self.groups
        self.dynamic, self.static = new_member(self.asker, group), new_member(self.asker, group, "instance")
        accepted(self.dynamic.join())
        accepted(self.dynamic.sync({self.dynamic.member_id: b""}))
        self.static.send_join()
        eventually(lambda: self.dynamic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
        self.dynamic.send_join()
        accepted(self.dynamic.receive_join())
        accepted(self.static.receive_join())
        self.asker.labels |= {self.dynamic.member_id: "dynamic", self.static.member_id: "static"}
        given = {self.dynamic.member_id: PARTS["dynamic"], self.static.member_id: PARTS["static"]}
        assert accepted(self.dynamic.sync(given)).assignment == PARTS["dynamic"]
        assert accepted(self.static.sync()).assignment == PARTS["static"]
        self._commit()

    def _commit(self) -> None:
        member = self.dynamic
        answer = self.asker.commit(member.group, TOPIC, 7 * self.asker.stage + 1, member.member_id, member.generation)
        assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0, 0]

    def resume(self) -> None:
        if self.third is not None:
            self.third.close()
        self.dynamic, self.static = moved(self.asker, self.dynamic), moved(self.asker, self.static)
        assert self.dynamic.heartbeat() == 0
        assert self.static.heartbeat() == 0
        assert accepted(self.dynamic.sync()).assignment == PARTS["dynamic"]
        old = self.static
        self.static = new_member(self.asker, self.groups[0], "instance")
        answer = self.static.join()
        self.asker.labels[self.static.member_id] = f"static {self.asker.stage}"
        self.asker.note("return of the static member", accepted(answer))
        assert answer.generation_id == self.dynamic.generation
        assert accepted(self.static.sync()).assignment == PARTS["static"]
        self.asker.note("heartbeat of the earlier static member", [old.heartbeat()])
        assert self.dynamic.heartbeat() == 0
        old.close()
        self._commit()

    def leave_open(self) -> None:
        if self.asker.stage == 1:
            self.third = new_member(self.asker, self.groups[0])
            self.third.begin_to_join()
            self.asker.labels[self.third.member_id] = "third"
            eventually(lambda: self.dynamic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")


class Mixed(Scene):
    """Consumer group with a member of the consumer protocol and one of the classic protocol."""

    groups = ("consumer-mixed",)

    def begin(self) -> None:
        (group,) = self.groups
        self.modern = ConsumerMember(asker=self.asker, group=group, number=0, topics=[TOPIC])
        settle([self.modern])
        self.classic = new_member(self.asker, group, topics=[TOPIC])

    def leave_open(self) -> None:
        if self.asker.stage == 0:
            self.asker.note("a classic member joins", self._joined())
            self.asker.note("partitions before the reconciliation", [self._synced()])
        self.asker.note("heartbeat before the exchange", accepted(self.modern.beat(owns=True)))

    def _joined(self) -> Any:
        answer = accepted(self.classic.join())
        self.asker.labels[self.classic.member_id] = "classic"
        return answer

    def _synced(self) -> dict[str, list[int]]:
        data = accepted(self.classic.sync()).assignment
        found = decode_consumer_protocol(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()
        return {each.topic: sorted(each.partitions) for each in found.assigned_partitions or ()}

    def resume(self) -> None:
        self.classic = moved(self.asker, self.classic)
        self.asker.note("heartbeat of a classic member", [self.classic.heartbeat()])
        self.asker.note("heartbeat beside a classic member", accepted(self.modern.beat()))
        if self.asker.stage > 1:
            assert self.classic.heartbeat() == 0
            return
        self.modern.confirm()
        self.asker.note("the other member revokes", accepted(self.modern.beat(owns=True)))
        self.asker.note("heartbeat after that", [self.classic.heartbeat()])
        self.asker.note("the classic member joins again", self._joined())
        part = self._synced()
        settle([self.modern])
        self.asker.note("partitions of the classic member", [part])
        assert len(part[TOPIC]) == len(self.modern.owned[TOPIC]) == 2
