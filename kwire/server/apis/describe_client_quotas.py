"""DescribeClientQuotas: the quotas of the entities that a filter finds (KIP-546)."""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.cluster.client_quotas import make_filter
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.long_answers import Pieces


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> Awaitable[DescribeClientQuotasResponse]:
    # To go through all quotas takes a while: others have their turn between two requests.
    return context.services.long_answers.make(_describe(request, context), context)


def _describe(request: DescribeClientQuotasRequest, context: RequestContext) -> Pieces:
    yield
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        wanted = make_filter(
            [(component.entity_type, component.match_type, component.match) for component in request.components],
            strict=request.strict,
        )
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message or error.code.meaning, entries=None
        )
    entries = [
        DescribeClientQuotasEntry(
            entity=[DescribeClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[DescribeClientQuotasValue(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in context.services.image.client_quotas.items()
        if wanted.matches(entity)
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


API = Api(request=DescribeClientQuotasRequest, response=DescribeClientQuotasResponse, handle=handle)
