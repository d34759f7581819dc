"""Configuration requests over a raw connection; responses become plain values that can be compared."""

from kwire.protocol.messages.alter_configs import AlterConfigsAlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(peer, kind, name, *keys, version=4, synonyms=True, documentation=False):
    """Return the complete DescribeConfigs result for one resource."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(
        resources=[resource],
        include_synonyms=synonyms and version >= 1,
        include_documentation=documentation and version >= 3,
    )
    (result,) = peer.ask(request, version).results
    return result


def entries(result):
    """Return all fields except the documentation, by configuration name."""
    assert result.error_code == 0, result
    return {
        each.name: {
            "value": each.value,
            "read_only": each.read_only,
            "source": each.config_source,
            "sensitive": each.is_sensitive,
            "type": each.config_type,
            "synonyms": [(other.name, other.value, other.source) for other in each.synonyms],
        }
        for each in result.configs
    }


def alter(peer, kind, name, *changes, validate_only=False):
    """Change one resource; return (error code, message). A change is (key, operation, value)."""
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = peer.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), 1).responses
    return answer.error_code, answer.error_message


def tried(peer, kind, name, key, value, operation=SET):
    """Validate a change without applying it; return (error code, message)."""
    return alter(peer, kind, name, (key, operation, value), validate_only=True)


def replace(peer, kind, name, values, *, version=2):
    """Validate AlterConfigs, which replaces the whole configuration by `values`; return (error code, message)."""
    configs = [AlterConfigsAlterableConfig(name=key, value=value) for key, value in values]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = peer.ask(AlterConfigsRequest(resources=[resource], validate_only=True), version).responses
    return answer.error_code, answer.error_message


def created(peer, name, key, value):
    """Validate the creation of a topic with one configuration; return (error code, message)."""
    configs = [CreatableTopicConfig(name=key, value=value)]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)
    (answer,) = peer.ask(request, 7).topics
    return answer.error_code, answer.error_message
