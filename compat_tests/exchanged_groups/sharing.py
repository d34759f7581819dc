"""Scene of a share group: records accepted, released, rejected and still acquired, with gaps between them."""

from typing import Any

from compat_tests.exchanged_groups.asking import accepted
from compat_tests.exchanged_groups.members import ShareMember, settle
from compat_tests.exchanged_groups.scene import Scene
from compat_tests.group_script.share_steps import ACCEPT, REJECT, RELEASE
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from kwire.protocol.records import Record, encode_batch

TOPIC = "parcels"
BATCH = 10
DELIVERIES = 5
"""Kafka's default of group.share.delivery.count.limit."""


class Sharing(Scene):
    """Share group with one member; `released` has the number of deliveries that is stored for each record."""

    groups = ("share-parcels",)

    def begin(self) -> None:
        self.asker.configure(self.groups[0], share_auto_offset_reset="earliest")
        self.member = ShareMember(asker=self.asker, group=self.groups[0], number=0, topics=[TOPIC])
        self.session_epoch = 0
        self.sent = 0
        self.done: set[int] = set()
        self.released: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self._produce()
        self._produce()
        self.member.settle_with(TOPIC)
        self._take(range(20))
        self._work()

    def _produce(self) -> None:
        batch = encode_batch([Record(value=b"%d" % number) for number in range(self.sent, self.sent + BATCH)])
        data = PartitionProduceData(index=0, records=bytes(batch))
        request = ProduceRequest(acks=-1, timeout_ms=10_000)
        request.topic_data = [TopicProduceData(name=TOPIC, partition_data=[data])]
        answer = self.asker.ask(request, 9)
        assert answer.responses[0].partition_responses[0].base_offset == self.sent
        self.sent += BATCH

    def _fetch(self) -> Any:
        request = ShareFetchRequest(
            group_id=self.groups[0],
            member_id=self.member.name,
            share_session_epoch=self.session_epoch,
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
        )
        if self.session_epoch == 0:
            partitions = [ShareFetchPartition(partition_index=0)]
            request.topics = [ShareFetchTopic(topic_id=self.asker.known.topic_id(TOPIC), partitions=partitions)]
        answer = self.asker.ask(request, 2)
        if not answer.error_code:
            self.session_epoch += 1
        return answer

    def _take(self, expected: Any) -> dict[int, int]:
        """Fetch until the expected records were delivered; return the number of deliveries of each."""
        taken: dict[int, int] = {}
        twice: list[int] = []

        def has_all() -> bool:
            answer = accepted(self._fetch())
            acquired = [
                each for topic in answer.responses for place in topic.partitions for each in place.acquired_records
            ]
            for each in acquired:
                for offset in range(each.first_offset, each.last_offset + 1):
                    if offset in taken:
                        twice.append(offset)
                    taken[offset] = each.delivery_count
            return taken.keys() >= set(expected)

        eventually(has_all, "records to be delivered")
        assert twice == []
        self.held |= taken
        return taken

    def _acknowledge(self, kinds: dict[int, int]) -> None:
        """Acknowledge each record with its type."""
        batches = [
            ShareAcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset, kind in sorted(kinds.items())
        ]
        partitions = [AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)]
        request = ShareAcknowledgeRequest(
            group_id=self.groups[0],
            member_id=self.member.name,
            share_session_epoch=self.session_epoch,
            topics=[AcknowledgeTopic(topic_id=self.asker.known.topic_id(TOPIC), partitions=partitions)],
        )
        answer = accepted(self.asker.ask(request, 2))
        self.session_epoch += 1
        assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]
        for offset, kind in kinds.items():
            count = self.held.pop(offset)
            if kind == RELEASE and count < DELIVERIES:
                self.released[offset] = count
            else:
                self.done.add(offset)

    def _work(self) -> None:
        """Acknowledge a part of what is acquired: accept some, leave gaps, release, reject, and keep the last ones."""
        first, *others = sorted(self.held)
        kinds = {first: ACCEPT, others[0]: RELEASE, others[1]: REJECT, others[2]: RELEASE, others[4]: ACCEPT}
        kinds |= {others[6]: RELEASE, others[7]: ACCEPT, others[8]: RELEASE}
        self._acknowledge(kinds)
        again = [others[0], others[2], others[6], others[8]]
        taken = self._take(again)
        self.asker.note("deliveries of released records", [taken])
        self._acknowledge({others[0]: RELEASE, others[2]: ACCEPT, others[8]: RELEASE})

    def resume(self) -> None:
        self.asker.note("heartbeat of a share member", accepted(self.member.beat()))
        settle([self.member])
        before = set(self.held)
        self.held.clear()
        self.asker.note("fetch of the old session", self._fetch())
        self.session_epoch = 0
        expected = set(range(self.sent)) - self.done
        taken = self._take(expected)
        assert taken.keys() == expected
        # A stop may release acquired records, which counts their delivery, or end before.
        counts = {offset: self.released.get(offset, 0) + 1 for offset in taken}
        assert all(count - counts[offset] in (0, 1 if offset in before else 0) for offset, count in taken.items())
        self.released |= {offset: count - 1 for offset, count in taken.items()}
        self.asker.note("deliveries after the exchange", [{at: taken[at] for at in taken if at not in before}])
        self._produce()
        self._take(range(self.sent - BATCH, self.sent))
        self._work()
