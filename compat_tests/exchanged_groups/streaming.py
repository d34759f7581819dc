"""Scene of a streams group: tasks with a changelog topic and standby tasks, and a member that joins."""

from compat_tests.exchanged_groups.asking import accepted
from compat_tests.exchanged_groups.members import StreamsMember, settle
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC = "words"
PARTITIONS = 4


class Streaming(Scene):
    """Two members share the tasks; a third one joins before the last exchange."""

    groups = ("streams-words",)

    def begin(self) -> None:
        self.asker.configure(self.groups[0], streams_num_standby_replicas=1)
        self.members = [self._new(0)]
        eventually(self._has_changelog, "the changelog topic")
        eventually(self._is_shared, "every task to be owned")
        settle(self.members)
        self.members.append(self._new(1))
        settle(self.members)

    def _new(self, number: int) -> StreamsMember:
        return StreamsMember(asker=self.asker, group=self.groups[0], number=number, topic=TOPIC)

    def _has_changelog(self) -> bool:
        """Send heartbeats, because Kafka tries again with one of them if it could not create the topic."""
        for member in self.members:
            accepted(member.beat(owns=True))
            member.confirm()
        name = f"{self.groups[0]}-counts-changelog"
        (found,) = self.asker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
        return [each.leader_id for each in found.partitions] == [1] * PARTITIONS

    def _is_shared(self) -> bool:
        for member in self.members:
            accepted(member.beat(owns=True))
            member.confirm()
        active = [index for each in self.members if each.owned for index in each.owned[0].get("0", [])]
        return sorted(active) == list(range(PARTITIONS))

    def resume(self) -> None:
        before = [(each.epoch, each.owned) for each in self.members]
        for number, member in enumerate(self.members):
            self.asker.note(f"heartbeat of streams member {number}", accepted(member.beat()))
            self.asker.note(f"tasks of streams member {number}", accepted(member.beat(owns=True)))
        settle(self.members)
        if self.asker.stage == 1:
            assert [(each.epoch, each.owned) for each in self.members] == before
        eventually(self._is_shared, "every task to be owned")
        settle(self.members)
        self.asker.note("tasks", [(each.epoch, each.owned) for each in self.members])

    def leave_open(self) -> None:
        if self.asker.stage == 1:
            self.members.append(self._new(2))
            self.asker.note("a new streams member joins", accepted(self.members[-1].beat()))
            for number, member in enumerate(self.members):
                self.asker.note(f"streams member {number} is to revoke", accepted(member.beat(owns=True)))
