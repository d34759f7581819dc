"""Which resources of an alter request go on to the controller, and which are refused before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

from kwire.cluster.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.context import RequestContext


class Resource(Protocol):
    """A resource of either alter request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


def sift(resources: Sequence[R], context: RequestContext) -> tuple[list[R], list[tuple[R, KafkaError | None]]]:
    """(resources to alter, resources refused and why); one that is named twice is refused once."""
    repeats = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    accepted: list[R] = []
    refused: list[tuple[R, KafkaError | None]] = []
    unique = {(resource.resource_type, resource.resource_name): resource for resource in resources}
    for key, resource in unique.items():
        if repeats[key] > 1:
            refused.append((resource, KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")))
        elif resource.resource_type == ConfigResourceType.TOPIC and not context.allows_topic(resource.resource_name):
            refused.append((resource, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        elif resource.resource_type != ConfigResourceType.TOPIC and not context.allows_cluster():
            refused.append((resource, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
        else:
            accepted.append(resource)
    return accepted, refused
