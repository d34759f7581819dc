"""Member of a share group that sends plain requests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from tests.support.raw_client import RawClient
from tests.support.requests import group_configs, values_in

GROUP = 32
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Acks = dict[int, list[tuple[int, int, list[int]]]]
"""Acknowledgements by partition: first offset, last offset, types."""


def configure_group(client: RawClient, group: str, **configs: str) -> None:
    """Set configurations of a group; names are written with underscores."""
    values = {name.replace("_", "."): value for name, value in configs.items()}
    (answer,) = client.ask(group_configs(group, values), 1).responses
    assert answer.error_code == 0, answer.error_message


class Member:
    """Member of a share group with a share session."""

    def __init__(self, client: RawClient, group: str, topic_id: UUID, name: str = "m1", topic: str = "") -> None:
        self.client = client
        self.group = group
        self.topic_id = topic_id
        self.topic = topic
        self.name = name
        self.epoch = 0

    def fetch_request(
        self,
        partitions: list[int] | None = None,
        *,
        acks: Acks | None = None,
        epoch: int | None = None,
        wait_ms: int = 5000,
        records_max: int = 500,
        batch_size: int = 500,
        min_bytes: int = 1,
        mode: int = 0,
        max_bytes: int = 1 << 20,
        is_renewal: bool = False,
        forgotten: list[int] | None = None,
    ) -> ShareFetchRequest:
        acks = acks or {}
        if partitions is None:
            partitions = [] if self.epoch else [0]
        asked = [
            ShareFetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    ShareFetchAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in acks.get(index, [])
                ],
            )
            for index in dict.fromkeys([*partitions, *acks])
        ]
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=records_max,
            batch_size=batch_size,
            share_acquire_mode=mode,
            is_renew_ack=is_renewal,
            topics=[ShareFetchTopic(topic_id=self.topic_id, partitions=asked)] if asked else [],
            forgotten_topics_data=[ShareFetchForgottenTopic(topic_id=self.topic_id, partitions=forgotten)]
            if forgotten
            else [],
        )

    def fetch(self, partitions: list[int] | None = None, *, version: int = 2, **more: Any) -> Any:
        """Fetch, and return the whole response."""
        answer = self.client.ask(self.fetch_request(partitions, **more), version)
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def take(self, partitions: list[int] | None = None, **more: Any) -> dict[int, list[tuple[int, int, int]]]:
        """Fetch, and return the acquired ranges of each partition that has some."""
        answer = self.fetch(partitions, **more)
        assert answer.error_code == 0, answer
        found = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
        assert all(each.error_code == each.acknowledge_error_code == 0 for each in found.values()), answer
        for each in found.values():
            assert bool(values_in(each.records)) == bool(each.acquired_records)
        return {
            index: [(it.first_offset, it.last_offset, it.delivery_count) for it in each.acquired_records]
            for index, each in found.items()
            if each.acquired_records
            if each.acquired_records
        }

    def acknowledge(self, acks: Acks, *, epoch: int | None = None, version: int = 2, is_renewal: bool = False) -> Any:
        """Acknowledge, and return the whole response."""
        topic = AcknowledgeTopic(
            topic_id=self.topic_id,
            partitions=[
                AcknowledgePartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        ShareAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                        for first, last, types in batches
                    ],
                )
                for index, batches in acks.items()
            ],
        )
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renewal,
            topics=[topic],
        )
        answer = self.client.ask(request, version)
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def settle(self, kind: int, first: int, last: int, partition: int = 0, **more: Any) -> int:
        """Acknowledge one range, and return the error code of the partition."""
        answer = self.acknowledge({partition: [(first, last, [kind])]}, **more)
        assert answer.error_code == 0, answer
        ((data,),) = [topic.partitions for topic in answer.responses]
        return int(data.error_code)
