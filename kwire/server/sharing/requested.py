"""Partitions and acknowledgements of a ShareFetch or ShareAcknowledge request, validated as Apache Kafka does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kwire.chunks import Pieces
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgementBatch,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kwire.server.requests.context import RequestContext
from kwire.server.sharing.share_sessions import PartitionKey
from kwire.server.sharing.states import Acknowledgement, AcknowledgeType

RENEWALS_SINCE: Final = 2
MEMBER_ID_CHARACTERS_MAX: Final = 36
ITEMS_AT_ONCE: Final = 512
"""Partitions and acknowledgement batches that are validated in one step."""

ShareRequest = ShareFetchRequest | ShareAcknowledgeRequest
Batches = Sequence[ShareFetchAcknowledgementBatch | ShareAcknowledgementBatch]
Topics = Sequence[ShareFetchTopic | AcknowledgeTopic]
Partitions = Sequence[ShareFetchPartition | AcknowledgePartition]


def rejection_of(request: ShareRequest, context: RequestContext) -> KafkaError | None:
    """Return the error for a whole request; None if it is served."""
    if request.group_id is None:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not context.allows_group(request.group_id):
        return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.member_id or len(request.member_id) > MEMBER_ID_CHARACTERS_MAX:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return None


def requested_partitions(request: ShareRequest) -> Pieces[dict[PartitionKey, Batches]]:
    """Return the acknowledgement batches of each partition, in the order of the request."""
    found: dict[PartitionKey, Batches] = {}
    topics: Topics = request.topics
    for topics_read, topic in enumerate(topics, 1):
        partitions: Partitions = topic.partitions
        for number, partition in enumerate(partitions, 1):
            found[topic.topic_id, partition.partition_index] = partition.acknowledgement_batches
            if number % ITEMS_AT_ONCE == 0:
                yield
        if topics_read % ITEMS_AT_ONCE == 0:
            yield
    return found


def acknowledgements(batches: Batches, version: int, *, is_renewal: bool) -> Pieces[list[Acknowledgement]]:
    """Return validated acknowledgements of one partition. Raises KafkaError."""
    most = AcknowledgeType.RENEW if version >= RENEWALS_SINCE else AcknowledgeType.REJECT
    found: list[Acknowledgement] = []
    previous_last = -1
    for number, batch in enumerate(batches, 1):
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        is_valid = first <= last and first >= previous_last and bool(types)
        is_valid = is_valid and (len(types) == 1 or len(types) == last - first + 1)
        is_valid = is_valid and min(types) >= AcknowledgeType.GAP and max(types) <= most
        if not is_valid or (AcknowledgeType.RENEW in types and not is_renewal):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        found.append(Acknowledgement(first, last, types))
        previous_last = last
        if number % ITEMS_AT_ONCE == 0:
            yield
    return found


class TopicAccess:
    """Names of the topics of one request, and the error of a partition that its client may not use."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._errors: dict[UUID, ErrorCode] = {}

    def name_of(self, key: PartitionKey) -> str:
        """Return the topic of a partition. Raises KafkaError if it is unknown or not allowed."""
        topic_id, index = key
        image = self._context.services.image
        name = image.topic_names.get(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        code = self._errors.get(topic_id)
        if code is None:
            is_allowed = self._context.allows_topic(name)
            code = self._errors[topic_id] = ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if not 0 <= index < len(image.topics[name].partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return name
