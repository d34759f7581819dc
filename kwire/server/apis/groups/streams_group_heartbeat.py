"""StreamsGroupHeartbeat: join, stay in and leave a streams group, and have its internal topics created (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.chunks import Pieces, at_once, chunks, is_in_pieces
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.coordinator.answers import Answer, when_answered
from kwire.coordinator.group.streams.configured_topology import InternalTopic
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeat
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.topology import ELEMENTS_MAX, SMALL, count_elements, too_many_elements
from kwire.protocol.error_codes import ErrorCode, shortened
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatTopology,
)
from kwire.server.apis.groups.client import client_of
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

DEFAULT_REPLICATION_FACTOR = -1
NAMED_ERRORS_MAX = 3
"""Failed topics that a status names."""
ERROR_KEPT_HEARTBEATS = 2
"""Heartbeat intervals for which the error of a topic is kept."""


def handle_streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Answer[StreamsGroupHeartbeatResponse] | Pieces[Answer[StreamsGroupHeartbeatResponse]]:
    if not context.services.groups.streams.is_enabled():
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is None:
        outcome = _heartbeat(request, context)
        return _flattened(outcome) if is_in_pieces(outcome) else outcome
    elements = count_elements(request.topology)
    if elements > ELEMENTS_MAX:
        return _rejected(too_many_elements(elements))
    checked = _checked(request, request.topology, context)
    return checked if elements > SMALL else at_once(checked)


def _checked(
    request: StreamsGroupHeartbeatRequest, topology: StreamsGroupHeartbeatTopology, context: RequestContext
) -> Pieces[Answer[StreamsGroupHeartbeatResponse]]:
    """Check the topics of a topology, in Kafka's order and words, and answer the heartbeat."""
    internal: list[str] = []
    invalid: list[str] = []
    is_allowed = True
    for some in chunks(_topics(topology)):
        internal += [name for name in some if name in INTERNAL_TOPICS]
        invalid += [name for name in some if why_invalid(name)]
        is_allowed = is_allowed and all(map(context.allows_topic, some))
        yield
    if internal:
        return _rejected(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        )
    if invalid:
        return _rejected(f"Topic names {','.join(invalid)} are not valid topic names.")
    if not is_allowed:
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return (yield from _flattened(_heartbeat(request, context)))


def _rejected(why: str) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=shortened(why))


def _topics(topology: StreamsGroupHeartbeatTopology) -> dict[str, None]:
    """Return the topics of a topology, each once."""
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        names.update(dict.fromkeys(subtopology.source_topics))
        names.update(dict.fromkeys(subtopology.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return names


def _heartbeat(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> Any:
    outcome: Any = context.services.groups.streams.heartbeat(request, client_of(context))
    return _in_pieces(outcome, context) if is_in_pieces(outcome) else _finished(outcome, context)


def _in_pieces(
    outcome: Pieces[Answer[StreamsHeartbeat]], context: RequestContext
) -> Pieces[Answer[StreamsGroupHeartbeatResponse]]:
    answer = yield from outcome
    return _finished(answer, context)


def _finished(answer: Answer[StreamsHeartbeat], context: RequestContext) -> Answer[StreamsGroupHeartbeatResponse]:
    return when_answered(answer, lambda heartbeat: _with_topics_created(heartbeat, context))


def _flattened(outcome: Any) -> Pieces[Answer[StreamsGroupHeartbeatResponse]]:
    """Return the answer of work that may be in pieces."""
    if is_in_pieces(outcome):
        outcome = yield from outcome
    answer: Answer[StreamsGroupHeartbeatResponse] = outcome
    return answer


# --- internal topics


def _with_topics_created(heartbeat: StreamsHeartbeat, context: RequestContext) -> StreamsGroupHeartbeatResponse:
    """Have missing internal topics created, and add to the status why they are not yet."""
    response, missing = heartbeat.response, heartbeat.missing
    if not missing:
        return response
    denied = [name for name in missing if not _may_create(name, context)]
    if denied:
        _add_detail(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
        return response
    errors = context.services.topic_creator.create_streams_topics_soon(
        map(_creatable, missing.values()), ERROR_KEPT_HEARTBEATS * response.heartbeat_interval_ms
    )
    if errors:
        _add_detail(response, f"; Creation failed: {_listed(errors)}.")
    return response


def _may_create(name: str, context: RequestContext) -> bool:
    return context.allows_cluster() or context.allows_to(Operation.CREATE, ResourceType.TOPIC, name)


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail = shortened(status.status_detail + detail)


def _listed(errors: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} ({errors[name]})" for name in list(errors)[:NAMED_ERRORS_MAX])
    return listed + (f" and {len(errors) - NAMED_ERRORS_MAX} more" if len(errors) > NAMED_ERRORS_MAX else "")


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


API = Api(
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
    handle=handle_streams_group_heartbeat,
    elements_of=lambda response: len(response.partitions_by_user_endpoint or ()),
)
