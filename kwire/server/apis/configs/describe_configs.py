"""DescribeConfigs: return the configurations of resources, with the sources of the values (KIP-226)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwire.chunks import CHUNK, Pieces, chunks, mapped
from kwire.cluster.configs.config_keys import ConfigResourceType, ConfigSource, broker_id_of
from kwire.cluster.topic_names import check_topic_name
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.server.replication.readable import readable
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext
from kwire.server.settings.broker_loggers import check_node, levels
from kwire.server.settings.config_entries import ConfigEntry

DESCRIBED: Final = frozenset({2, 4, 8, 16, 32})
"""Supported resource types: topics, brokers, loggers, client metrics and groups."""
SHOWN_MAX: Final = 400_000
"""Approximate maximum of configurations in a response: those of 10,000 topics, some 60 MB.

Any group name can be described, so that a short request would otherwise get an unbounded response.
"""


def handle_describe_configs(request: DescribeConfigsRequest, context: NodeContext) -> Pieces[DescribeConfigsResponse]:
    # A repeated resource is described once: a short request must not get an unbounded response.
    requested: dict[tuple[int, str], DescribeConfigsResource] = {}
    kinds: set[int] = set()
    for some in chunks(request.resources):
        requested |= {(resource.resource_type, resource.resource_name): resource for resource in some}
        kinds |= {resource.resource_type for resource in some}
        if len(some) == CHUNK:
            yield
    if not kinds <= DESCRIBED:
        return DescribeConfigsResponse(results=(yield from mapped(requested.values(), _rejected)))
    results = []
    room = SHOWN_MAX
    for resource in requested.values():
        yield  # a broker has hundreds of settings, even if few are requested
        result = _resource(resource, request, context) if room > 0 else _too_much(resource)
        room -= len(result.configs)
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _too_much(asked: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"This request asks for more than {SHOWN_MAX} configurations: describe fewer resources at once.",
    )


def _rejected(asked: DescribeConfigsResource) -> DescribeConfigsResult:
    """Return the result of each resource of a request that has one of an unknown type."""
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=ErrorCode.INVALID_REQUEST.meaning,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _resource(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: NodeContext
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=""
    )
    try:
        if asked.resource_type == ConfigResourceType.BROKER_LOGGER:
            result.configs = _loggers(asked, context)
            return result
        entries = _entries(asked, context)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or error.code.meaning
        return result
    requested = set(asked.configuration_keys or ())
    result.configs = [_shown(entry, request) for entry in entries if not requested or entry.name in requested]
    return result


def _loggers(asked: DescribeConfigsResource, context: NodeContext) -> list[DescribeConfigsResourceResult]:
    if not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    check_node(context.services.node_id, asked.resource_name)
    requested = set(asked.configuration_keys or ())
    return [
        DescribeConfigsResourceResult(name=name, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER)
        for name, level in levels().items()
        if not requested or name in requested
    ]


def _entries(asked: DescribeConfigsResource, context: NodeContext) -> Sequence[ConfigEntry]:
    services = context.services
    kind, name = asked.resource_type, asked.resource_name
    overrides = services.image.config_of(kind, name)
    if kind == ConfigResourceType.TOPIC:
        if not context.allows_topic(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_topic_name(name)
        if name not in services.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return services.config_entries.of_topic(overrides)
    if kind == ConfigResourceType.GROUP:
        if not context.allows_group(name):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return services.config_entries.of_group(overrides)
    if not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if kind == ConfigResourceType.BROKER:
        return _broker_entries(name, context)
    assert kind == ConfigResourceType.CLIENT_METRICS
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return services.config_entries.of_client_metrics(overrides)


def _broker_entries(name: str, context: NodeContext) -> Sequence[ConfigEntry]:
    services = context.services
    if name == "":
        return services.config_entries.of_broker_defaults()
    broker_id = broker_id_of(name)
    if broker_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if broker_id != services.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}",
        )
    return services.config_entries.of_broker()


def _readable(value: str | None) -> str | None:
    return None if value is None else readable(value)


def _shown(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=_readable(entry.value),
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=_readable(value), source=source)
            for name, value, source in (entry.synonyms if request.include_synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


API = Api(request=DescribeConfigsRequest, response=DescribeConfigsResponse, handle=handle_describe_configs)
