"""DeleteTopics: delete topics and all their records.

3  TOPIC_DELETION_DISABLED may be returned (KIP-322)
4  flexible
5  error message; THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599)
6  by topic id as well (KIP-516)
"""

from kwire.protocol.primitives import TopicName, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DeleteTopicState:
    name: TopicName | None = field("6+", nullable="6+", default=None)
    topic_id: uuid = field("6+")


@message(key=20, kind="request", versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[TopicName] = field("0-5", ignorable=True)
    timeout_ms: int32 = field("0+")


@struct
class DeletableTopicResult:
    name: TopicName | None = field("0+", nullable="6+")
    topic_id: uuid = field("6+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: string | None = field("5+", nullable="5+", default=None, ignorable=True)


@message(key=20, kind="response", versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field("0+")
