"""DescribeClientQuotas: return the quotas of the entities that match a filter (KIP-546)."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from kwire.chunks import chunks
from kwire.cluster.metadata.client_quotas import QuotaEntity, make_filter
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> Generator[None, None, DescribeClientQuotasResponse]:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        requested = make_filter(
            [(component.entity_type, component.match_type, component.match) for component in request.components],
            strict=request.strict,
        )
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message or error.code.meaning, entries=None
        )
    entries = []
    for chunk in chunks(context.services.image.client_quotas.items()):
        yield
        entries += [_entry(entity, values) for entity, values in chunk if requested.matches(entity)]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> DescribeClientQuotasEntry:
    return DescribeClientQuotasEntry(
        entity=[DescribeClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[DescribeClientQuotasValue(key=key, value=value) for key, value in values.items()],
    )


API = Api(
    request=DescribeClientQuotasRequest, response=DescribeClientQuotasResponse, handle=handle_describe_client_quotas
)
