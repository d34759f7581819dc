"""FindCoordinator: return the coordinator of a group, a transactional id or a share group's partition.

An internal topic is created by the first request of a client for one of its coordinators. The response waits for that,
so that the client need not retry. Coordinators of share groups are for brokers only, from version 6 on (KIP-932).
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from functools import partial

from kwire.chunks import Pieces, in_turns, mapped
from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.security.acls import CLUSTER_NAME, ResourceType
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.coordinator.share.keys import parse_share_key
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

MANY_KEYS_SINCE = 4
SHARE_SINCE = 6
NO_NODE = -1


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS = {
    KeyType.GROUP: GROUP_OFFSETS_TOPIC,
    KeyType.TRANSACTION: TRANSACTION_STATE_TOPIC,
    KeyType.SHARE: SHARE_STATE_TOPIC,
}
_RESOURCES = {
    KeyType.GROUP: ResourceType.GROUP,
    KeyType.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
    KeyType.SHARE: ResourceType.CLUSTER,
}
_REJECTIONS = {
    KeyType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    KeyType.TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KeyType.SHARE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
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
    kind = KeyType(request.key_type)
    if any(_is_accepted(kind, key, context) for key in _keys(request, context)):
        await context.services.topic_creator.create([topic])
    return await in_turns(_answer(request, context))


def _is_accepted(kind: KeyType, key: str, context: RequestContext) -> bool:
    try:
        _check_key(kind, key, context)
    except KafkaError:
        return False
    return True


def _check_key(kind: KeyType, key: str, context: RequestContext) -> str:
    """Return the key whose hash selects the coordinator. Raises KafkaError if the client may not ask for it."""
    if kind is KeyType.SHARE and context.version < SHARE_SINCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not context.allows(_RESOURCES[kind], CLUSTER_NAME if kind is KeyType.SHARE else key):
        raise KafkaError(_REJECTIONS[kind])
    return parse_share_key(key).coordinator_key if kind is KeyType.SHARE else key


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
    key = _check_key(kind, key, context)
    services = context.services
    topic = services.image.topics.get(_TOPICS[kind])
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[_partition_for(kind, key, context)].leader
    endpoint = None if leader == NO_LEADER else services.endpoint(leader, context.listener_name)
    if endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return leader, *endpoint


def _partition_for(kind: KeyType, key: str, context: RequestContext) -> int:
    services = context.services
    if kind is KeyType.GROUP:
        return services.groups.partition_for(key)
    return (
        services.transactions.partition_for(key)
        if kind is KeyType.TRANSACTION
        else services.share_states.partition_for(key)
    )


API = Api(request=FindCoordinatorRequest, response=FindCoordinatorResponse, handle=handle_find_coordinator)
