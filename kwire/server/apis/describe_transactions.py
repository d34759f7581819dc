"""DescribeTransactions: the state of transactional ids. This broker coordinates none (KIP-664)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from kwire.server.authorization import ResourceType
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribeTransactionsTransactionState(transactional_id=each, error_code=_code(each, context))
            for each in request.transactional_ids
        ]
    )


def _code(transactional_id: str, context: RequestContext) -> ErrorCode:
    if not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST


API = Api(request=DescribeTransactionsRequest, response=DescribeTransactionsResponse, handle=handle)
