"""Scene of members that vanish before an exchange: the next broker removes them after their session timeout."""

import time
from typing import Any

from compat_tests.exchanged_groups.asking import accepted
from compat_tests.exchanged_groups.classics import new_member
from compat_tests.exchanged_groups.consumers import TOPIC
from compat_tests.exchanged_groups.members import (
    LEAVES_FOR_A_WHILE,
    ConsumerMember,
    Member,
    ShareMember,
    StreamsMember,
    settle,
)
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

SESSION_MS = 10_000
SLACK_SECONDS = 4


class Vanishing(Scene):
    """Groups, one of each kind. Their members fall silent; a static one left for a while and does not return."""

    groups = ("classic-vanishing", "consumer-vanishing", "share-vanishing", "streams-vanishing")

    def begin(self) -> None:
        for group in self.groups[1:]:
            kind = group.partition("-")[0]
            self.asker.configure(group, **{f"{kind}_session_timeout_ms": SESSION_MS})
        _, consumer, share, streams = self.groups
        self.static = ConsumerMember(asker=self.asker, group=consumer, number=1, topics=[TOPIC], instance="instance")
        self.consumers = [ConsumerMember(asker=self.asker, group=consumer, number=0, topics=[TOPIC]), self.static]
        self.share = ShareMember(asker=self.asker, group=share, number=0, topics=[TOPIC])
        self.streams = StreamsMember(asker=self.asker, group=streams, number=0, topic=TOPIC)

    def _silent(self) -> list[Member]:
        return [*self.consumers, self.share, self.streams]

    def leave_open(self) -> None:
        for member in self._silent():
            member.forget()
        settle(self.consumers)
        self.share.settle_with(TOPIC)
        accepted(self.streams.beat())
        eventually(self._has_tasks, "tasks of the silent member")
        accepted(self.static.beat(epoch=LEAVES_FOR_A_WHILE))
        with new_member(self.asker, self.groups[0]) as classic:
            classic.session_ms = SESSION_MS
            accepted(classic.join())
            accepted(classic.sync({classic.member_id: b"all"}))
            self.asker.labels[classic.member_id] = "silent"

    def _has_tasks(self) -> bool:
        accepted(self.streams.beat(owns=True))
        self.streams.confirm()
        return bool(self.streams.owned and self.streams.owned[0])

    def _counts(self) -> list[int]:
        """Return the number of members of each group."""
        classic, consumer, share, streams = ([group] for group in self.groups)
        described: list[Any] = [
            self.asker.ask(DescribeGroupsRequest(groups=classic), 6),
            self.asker.ask(ConsumerGroupDescribeRequest(group_ids=consumer), 1),
            self.asker.ask(ShareGroupDescribeRequest(group_ids=share), 1),
            self.asker.ask(StreamsGroupDescribeRequest(group_ids=streams), 0),
        ]
        return [len(each.groups[0].members) for each in described]

    def check_loaded(self) -> None:
        counts = self._counts()
        assert counts == [1, 2, 1, 1], counts
        self.loaded = time.monotonic()

    def resume(self) -> None:
        eventually(lambda: self._counts() == [0, 0, 0, 0], "session timeouts", 30)
        assert time.monotonic() - self.loaded < SESSION_MS / 1000 + SLACK_SECONDS
        for member in self._silent():
            if member is self.static:
                continue
            self.asker.note(f"return of {member.group} {member.number}", member.beat())
        listed = [each for each in self.asker.ask(ListGroupsRequest(), 5).groups if each.group_id in self.groups]
        self.asker.note("groups without members", listed)
