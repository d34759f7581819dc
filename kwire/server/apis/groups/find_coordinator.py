"""FindCoordinator: return the coordinator of a group, a transactional id or a share group's partition.

__consumer_offsets and __transaction_state are created by the first request of a client for a coordinator. The response
waits for that, so that the client need not retry. Share groups have no coordinator in kwire.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from functools import partial

from kwire.chunks import Pieces, in_turns, mapped
from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.server.requests.api import Api
from kwire.server.requests.authorization import ResourceType
from kwire.server.requests.context import RequestContext

MANY_KEYS_SINCE = 4
NO_NODE = -1


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS = {KeyType.GROUP: GROUP_OFFSETS_TOPIC, KeyType.TRANSACTION: TRANSACTION_STATE_TOPIC}
_RESOURCES = {KeyType.GROUP: ResourceType.GROUP, KeyType.TRANSACTION: ResourceType.TRANSACTIONAL_ID}
_REJECTIONS = {
    KeyType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    KeyType.TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def handle_find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext
) -> Pieces[FindCoordinatorResponse] | Awaitable[FindCoordinatorResponse]:
    topic = _TOPICS.get(KeyType(request.key_type)) if request.key_type in KeyType.__members__.values() else None
    if topic is not None and topic not in context.services.image.topics:
        return _create_and_answer(topic, request, context)
    return _answer(request, context)


async def _create_and_answer(
    topic: str, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    resource = _RESOURCES[KeyType(request.key_type)]
    if any(context.allows(resource, key) for key in _keys(request, context)):
        await context.services.topic_creator.create([topic])
    return await in_turns(_answer(request, context))


def _keys(request: FindCoordinatorRequest, context: RequestContext) -> list[str]:
    return request.coordinator_keys if context.version >= MANY_KEYS_SINCE else [request.key]


def _answer(request: FindCoordinatorRequest, context: RequestContext) -> Pieces[FindCoordinatorResponse]:
    found = yield from mapped(_keys(request, context), partial(_find, context, request.key_type))
    if context.version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(context: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        node_id, host, port = _locate(key, key_type, context)
    except KafkaError as error:
        return Coordinator(
            key=key,
            node_id=NO_NODE,
            port=NO_NODE,
            error_code=error.code,
            error_message=error.message or error.code.meaning,
        )
    message = "" if context.version >= MANY_KEYS_SINCE else ErrorCode.NONE.name
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=message)


def _locate(key: str, key_type: int, context: RequestContext) -> tuple[int, str, int]:
    if key_type not in _TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    kind = KeyType(key_type)
    if not context.allows(_RESOURCES[kind], key):
        raise KafkaError(_REJECTIONS[kind])
    services = context.services
    topic = services.image.topics.get(_TOPICS[kind])
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator = services.groups if kind is KeyType.GROUP else services.transactions
    leader = topic.partitions[coordinator.partition_for(key)].leader
    endpoint = None if leader == NO_LEADER else services.endpoint(leader, context.listener_name)
    if endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return leader, *endpoint


API = Api(request=FindCoordinatorRequest, response=FindCoordinatorResponse, handle=handle_find_coordinator)
