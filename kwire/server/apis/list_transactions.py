"""ListTransactions: the transactional ids that this broker coordinates: none (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import re

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    if context.version >= 2 and request.transactional_id_pattern:
        try:
            re.compile(request.transactional_id_pattern)
        except (re.error, OverflowError, RecursionError):
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    )


API = Api(request=ListTransactionsRequest, response=ListTransactionsResponse, handle=handle)
