"""Scenes of consumer groups: stable with a static member, in a reconciliation, late, and subscribed by a pattern."""

import time

from compat_tests.exchanged_groups.asking import accepted
from compat_tests.exchanged_groups.members import LEAVES_FOR_A_WHILE, ConsumerMember, settle
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.harness.waiting import eventually

TOPIC = "orders"
"""Topic with four partitions."""
PATTERN = "letters-0"
"""First topic that matches the regular expression."""
LATE_MS = 10_000
REGEX_SECONDS = 40


class Stable(Scene):
    """A dynamic member sends heartbeats, a static one goes for the time of each second exchange."""

    groups = ("consumer-stable",)

    def begin(self) -> None:
        self.dynamic = ConsumerMember(asker=self.asker, group=self.groups[0], number=0, topics=[TOPIC])
        self.static = self._static(1)
        settle([self.dynamic, self.static])
        self._commit()

    def _static(self, number: int) -> ConsumerMember:
        return ConsumerMember(
            asker=self.asker, group=self.groups[0], number=number, topics=[TOPIC], instance="instance"
        )

    def _commit(self) -> None:
        answer = self.asker.commit(self.groups[0], TOPIC, 10 * self.asker.stage, self.dynamic.name, self.dynamic.epoch)
        assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0, 0]

    def resume(self) -> None:
        before = self.dynamic.epoch, self.dynamic.owned
        self.asker.note("heartbeat of a dynamic member", accepted(self.dynamic.beat()))
        self.asker.note("heartbeat with partitions", accepted(self.dynamic.beat(owns=True)))
        answer = self.asker.offsets(self.groups[0], self.dynamic.name, self.dynamic.epoch, stable=True)
        self.asker.note("offsets of a member", answer)
        owned = self.static.owned
        if self.asker.stage % 2:
            self.asker.note("a second member of an instance", self._static(9).beat())
            self.asker.note("heartbeat of a static member", accepted(self.static.beat(owns=True)))
        else:
            self.static = self._static(self.asker.stage)
            self.asker.note("return of a static member", accepted(self.static.beat()))
        settle([self.dynamic, self.static])
        assert (self.dynamic.epoch, self.dynamic.owned, self.static.owned) == (*before, owned)
        self._commit()

    def leave_open(self) -> None:
        if self.asker.stage % 2:
            self.asker.note("a static member goes", accepted(self.static.beat(epoch=LEAVES_FOR_A_WHILE)))


class Reconciling(Scene):
    """A new member waits for partitions that another has not given up when the broker is exchanged."""

    groups = ("consumer-reconciling",)

    def begin(self) -> None:
        self.members = [self._new(0)]
        settle(self.members)

    def _new(self, number: int) -> ConsumerMember:
        return ConsumerMember(asker=self.asker, group=self.groups[0], number=number, topics=[TOPIC])

    def leave_open(self) -> None:
        self.members.append(self._new(self.asker.stage + 1))
        self.asker.note("a new member joins", accepted(self.members[-1].beat()))
        for number, member in enumerate(self.members):
            self.asker.note(f"member {number} is to revoke", accepted(member.beat(owns=True)))

    def resume(self) -> None:
        for number, member in enumerate(self.members):
            self.asker.note(f"member {number} goes on", accepted(member.beat()))
        for number, member in enumerate(self.members):
            self.asker.note(f"member {number} still owns", accepted(member.beat(owns=True)))
        for number, member in enumerate(self.members):
            member.confirm()
            self.asker.note(f"member {number} confirms", accepted(member.beat(owns=True)))
        settle(self.members)
        self.asker.note("reconciled", [(each.epoch, each.owned) for each in self.members])
        assert sorted(index for each in self.members for index in each.owned.get(TOPIC, [])) == [0, 1, 2, 3]


class Late(Scene):
    """A member does not give up its partitions in time: the broker after the exchange removes it."""

    groups = ("consumer-late",)

    def begin(self) -> None:
        self.late = self._new(0, LATE_MS)
        self.other = self._new(1, LATE_MS)

    def _new(self, number: int, timeout_ms: int) -> ConsumerMember:
        return ConsumerMember(
            asker=self.asker, group=self.groups[0], number=number, topics=[TOPIC], rebalance_timeout_ms=timeout_ms
        )

    def leave_open(self) -> None:
        self.late.forget()
        settle([self.late])
        self.other.beat()
        answer = accepted(self.late.beat(owns=True))
        self.asker.note("the late member is to revoke", answer)
        assert len(self.late.assigned[TOPIC]) == 2

    def resume(self) -> None:
        self.asker.note("the late member goes on", accepted(self.late.beat()))
        began = time.monotonic()

        def is_removed() -> bool:
            self.other.beat()
            return bool(self.late.beat(owns=True).error_code)

        eventually(is_removed, "the rebalance timeout", LATE_MS / 1000 + 10)
        assert time.monotonic() - began < LATE_MS / 1000 + 5
        self.asker.note("heartbeat of the removed member", self.late.beat(owns=True))
        settle([self.other])
        assert self.other.owned == {TOPIC: [0, 1, 2, 3]}
        left = accepted(self.other.beat(epoch=-1))
        self.asker.note("the other member leaves", left)
        self.other.forget()


class Pattern(Scene):
    """A member is subscribed by a regular expression; topics that match are created later."""

    groups = ("consumer-pattern",)

    def begin(self) -> None:
        self.member = ConsumerMember(asker=self.asker, group=self.groups[0], number=0, regex="letters-.*")
        accepted(self.member.beat())
        self._receive(PATTERN)

    def _receive(self, topic: str) -> None:
        """Send heartbeats until the partitions of the topic are assigned."""

        def has_topic() -> bool:
            accepted(self.member.beat(owns=True))
            self.member.confirm()
            return topic in self.member.owned

        eventually(has_topic, f"{topic} to match", REGEX_SECONDS)
        settle([self.member])

    def resume(self) -> None:
        before = self.member.epoch, self.member.owned
        self.asker.note("heartbeat with a pattern", accepted(self.member.beat()))
        settle([self.member])
        assert (self.member.epoch, self.member.owned) == before
        if self.asker.stage == 1:
            self.asker.create_topic("letters-1", 1)
            self._receive("letters-1")
        self.asker.note("topics of a pattern", [self.member.owned])
