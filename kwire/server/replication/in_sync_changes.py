"""Proposals of leaders to change in-sync replicas, sent to the controller in batches by AlterPartition (KIP-497).

The result of a change arrives with the metadata; the response only says whether the change will be made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from kwire.cluster.partitions.in_sync import Proposal
from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)
from kwire.server.other_nodes.active_controller import ActiveController, NoActiveControllerError
from kwire.server.other_nodes.controller_retries import IN_SYNC_RETRY_SECONDS, send_when_woken

logger = logging.getLogger(__name__)

_WAIT_FOR_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which newer metadata have arrived or will arrive."""
_NOT_NOW: Final = frozenset(
    {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST}
)
"""Errors after which the set stays as it is; the followers' next fetches may lead to another proposal."""


PARTITIONS_MAX: Final = 2000
"""Partitions of one request: the controller limits the elements of a request, and each in-sync replica is one."""


class _Proposed(NamedTuple):
    partition: Partition
    proposal: Proposal


class InSyncChanges:
    """Proposals that the controller has not decided yet."""

    def __init__(self, *, broker_id: int, broker_epoch: Callable[[], int], active_controller: ActiveController) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._active_controller = active_controller
        self._waiting: dict[tuple[UUID, int], Partition] = {}
        self._woken = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """Send the proposal of a partition."""
        self._waiting[partition.topic_id, partition.index] = partition
        self._woken.set()

    async def run(self) -> None:
        """Send proposals for as long as the broker runs."""
        await send_when_woken(self._woken, self._send_all, IN_SYNC_RETRY_SECONDS)

    async def _send_all(self) -> bool:
        """Send all proposals; return False if some must be sent again."""
        while self._waiting:
            if not await self._send_waiting():
                return False
        return True

    async def _send_waiting(self) -> bool:
        """Send the waiting proposals, as many as a request may have.

        This is a separate function, so that no local variable keeps deleted partitions in memory.
        """
        taken = [self._waiting.pop(key) for key in list(islice(self._waiting, PARTITIONS_MAX))]
        proposed = _proposals(taken)
        return not proposed or await self._send(proposed)

    async def _send(self, proposed: Sequence[_Proposed]) -> bool:
        """Send proposals; return True if each has a final result. The others wait again."""
        try:
            response: AlterPartitionResponse = await self._active_controller.send(self._request(proposed))
        except (NoActiveControllerError, KafkaError) as error:
            logger.debug("no controller changes in-sync replicas: %s", error)
            return self._try_again(proposed)
        if response.error_code != ErrorCode.NONE:
            logger.info("the controller rejects changes of in-sync replicas: %s", ErrorCode(response.error_code).name)
            return self._try_again(proposed)
        answers = {
            (topic.topic_id, answer.partition_index): answer for topic in response.topics for answer in topic.partitions
        }
        again = [
            each
            for each in proposed
            if not _apply_result(each, answers.get((each.partition.topic_id, each.partition.index)))
        ]
        return self._try_again(again) if again else True

    def _try_again(self, proposed: Iterable[_Proposed]) -> bool:
        for partition, _ in proposed:
            self._waiting.setdefault((partition.topic_id, partition.index), partition)
        return False

    def _request(self, proposed: Iterable[_Proposed]) -> AlterPartitionRequest:
        topics: dict[UUID, AlterPartitionRequestTopicData] = {}
        for partition, proposal in proposed:
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = AlterPartitionRequestTopicData(topic_id=partition.topic_id)
            members = [
                AlterPartitionBrokerState(broker_id=broker, broker_epoch=epoch)
                for broker, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
            ]
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )


def _proposals(partitions: Iterable[Partition]) -> list[_Proposed]:
    """Return the proposals that still exist, of partitions that are still led."""
    return [
        _Proposed(partition, partition.followers.proposal)
        for partition in partitions
        if partition.followers is not None and partition.followers.proposal is not None
    ]


def _apply_result(proposed: _Proposed, answer: AlterPartitionResponsePartitionData | None) -> bool:
    """Apply the result for one partition; return False if the proposal must be sent again."""
    partition, proposal = proposed
    followers = partition.followers
    if followers is None or followers.proposal is not proposal:
        return True
    code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode(answer.error_code)
    if code is ErrorCode.NONE:
        assert answer is not None
        if answer.partition_epoch == proposal.partition_epoch:  # nothing changed
            followers.rejected(proposal)
        return True
    logger.info("%s-%d: in-sync set %s rejected: %s", partition.topic, partition.index, list(proposal.isr), code.name)
    if code in _NOT_NOW:
        followers.rejected(proposal)
    return code in _NOT_NOW or code in _WAIT_FOR_METADATA
