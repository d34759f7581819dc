"""DescribeConfigs: of topics and brokers, with where each value came from (KIP-226)."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.config_keys import ConfigResourceType
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
from kwire.server.config_entries import ConfigEntry, broker_entries, dynamic_entries, topic_entries
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    # What is named again is answered once: a short request must not make an answer without bounds.
    wanted = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return DescribeConfigsResponse(results=[_resource(resource, request, context) for resource in wanted.values()])


def _resource(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=""
    )
    try:
        entries = _entries(asked, context)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or error.code.meaning
        return result
    wanted = None if asked.configuration_keys is None else set(asked.configuration_keys)
    result.configs = [_shown(entry, request) for entry in entries if wanted is None or entry.key.name in wanted]
    return result


def _entries(asked: DescribeConfigsResource, context: RequestContext) -> Sequence[ConfigEntry]:
    services = context.services
    image, name = services.image, asked.resource_name
    defaults = image.config_of(ConfigResourceType.BROKER, "")
    own = image.config_of(ConfigResourceType.BROKER, str(services.node_id))
    if asked.resource_type == ConfigResourceType.TOPIC:
        if not context.allows_topic(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(image.config_of(ConfigResourceType.TOPIC, name), services.config, defaults, own)
    if not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if asked.resource_type == ConfigResourceType.BROKER:
        if name == "":
            return dynamic_entries(defaults)
        if name != str(services.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}",
            )
        return broker_entries(services.config, defaults, own)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {asked.resource_type}")


def _shown(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    key = entry.key
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if key.sensitive else entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if key.sensitive else value, source=source)
            for name, value, source in (entry.synonyms if request.include_synonyms else ())
        ],
        config_type=key.type,
        documentation=key.doc if request.include_documentation else None,
    )


API = Api(request=DescribeConfigsRequest, response=DescribeConfigsResponse, handle=handle)
