"""Client of the broker that serves a directory. It keeps the answers that two stories must have in common."""

from collections.abc import Iterator
from typing import Any

from compat_tests.confluent_kafka_client.client import dotted
from compat_tests.differential.wire import Side
from compat_tests.group_script.playing import Player
from compat_tests.group_script.stored import stored_records
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.support.requests import group_configs

NOT_READY = {14, 15, 16}


class Asker(Player):
    """Client whose answers are kept under a label and the number of the broker that gave them."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(Side(name=bootstrap, bootstrap=bootstrap))
        self.bootstrap = bootstrap
        self.stage = 0
        self.groups: list[str] = []
        """Groups to describe; the first word of a name is the type of the group."""
        self.labels: dict[str, str] = {}
        """Names of ids that a broker has generated."""
        self.answers: dict[str, Any] = {}

    def note(self, label: str, answer: Any) -> Any:
        """Keep an answer; two stories have to have the same ones."""
        key = f"broker {self.stage}, {label}"
        assert key not in self.answers, key
        self.answers[key] = self.plain(answer)
        return answer

    def plain(self, value: Any, name: str = "") -> Any:
        plain = super().plain(value, name)
        return self.labels.get(plain, plain) if isinstance(plain, str) else plain

    def begin_stage(self, stage: int) -> None:
        """Connect to the next broker, and wait until it has loaded all groups."""
        self.stage = stage
        for slot in list(self.side.connections):
            self.side.drop(slot)

        def is_ready() -> bool:
            found = self.ask(FindCoordinatorRequest(coordinator_keys=self.groups), 6).coordinators
            offsets = [self.offsets(group).groups[0].error_code for group in self.groups]
            return not {*offsets, *(each.error_code for each in found)} & NOT_READY

        eventually(is_ready, "the coordinators of all groups")
        self.look_up_topics()

    def create_topic(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (made,) = self.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert not made.error_code, made

        def is_led() -> bool:
            (found,) = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
            return [each.leader_id for each in found.partitions] == [1] * partitions

        eventually(is_led, f"leaders of {name}")
        self.look_up_topics()

    def configure(self, group: str, **configs: object) -> None:
        """Set configurations of a group."""
        (altered,) = self.ask(group_configs(group, dotted(configs)), 1).responses
        assert not altered.error_code, altered

    def commit(self, group: str, topic: str, offset: int, member: str = "", epoch: int = -1) -> Any:
        """Commit an offset for partitions 0 and 1 of a topic."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset + index, committed_metadata="m")
            for index in range(2)
        ]
        request = OffsetCommitRequest(group_id=group, member_id=member, generation_id_or_member_epoch=epoch)
        request.topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        return self.ask(request, 9)

    def offsets(self, group: str, member: str | None = None, epoch: int = -1, *, stable: bool = False) -> Any:
        asked = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=None)
        return self.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 9)

    def note_groups(self, when: str, *, with_records: bool = False) -> None:
        """Keep the list of groups, their descriptions, their offsets, and on request their stored records."""
        self.note(f"{when}: list of groups", self.ask(ListGroupsRequest(), 5))
        for group in self.groups:
            for number, description in enumerate(self._descriptions(group)):
                self.note(f"{when}: description {number} of {group}", description)
            self.note(f"{when}: offsets of {group}", self.offsets(group))
        if with_records:
            for topic, records in stored_records(self).items():
                self.note(f"{when}: records of {topic}", records)

    def _descriptions(self, group: str) -> Iterator[Any]:
        kind = group.partition("-")[0]
        yield self.ask(DescribeGroupsRequest(groups=[group]), 6)
        if kind == "consumer":
            yield self.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
        elif kind == "share":
            yield self.ask(ShareGroupDescribeRequest(group_ids=[group]), 1)
            asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
            yield self.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        elif kind == "streams":
            yield self.ask(StreamsGroupDescribeRequest(group_ids=[group]), 0)


def accepted(answer: Any) -> Any:
    """Return the answer; it must have no error."""
    assert not answer.error_code, answer
    return answer
