"""ListTransactions: list the transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.cluster.patterns import Matcher, Pattern, PatternRejectedError
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.transaction.listing import KNOWN_STATES, ListingFilter
from kwire.coordinator.transaction.states import STATE_NAMES
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_list_transactions(
    request: ListTransactionsRequest, context: RequestContext
) -> Pieces[ListTransactionsResponse]:
    try:
        requested = ListingFilter(
            states=frozenset(request.state_filters) & KNOWN_STATES,
            producer_ids=frozenset(request.producer_id_filters),
            longer_than_ms=request.duration_filter,
        )
        matcher = Matcher()
        pattern = yield from _pattern(request.transactional_id_pattern, matcher)
        unknown = [name for name in dict.fromkeys(request.state_filters) if name not in KNOWN_STATES]
        listed: list[ListTransactionsTransactionState] = []
        for some in context.services.transactions.list_transactions(requested):
            for each in some:
                if not context.allows(ResourceType.TRANSACTIONAL_ID, each.transactional_id, is_requested=False):
                    continue
                if pattern is not None and not (yield from matcher.matches(pattern, each.transactional_id)):
                    continue
                listed.append(
                    ListTransactionsTransactionState(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        transaction_state=STATE_NAMES[each.state],
                    )
                )
            yield
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    if unknown and not requested.states:
        listed = []  # only unknown states were requested
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _pattern(pattern: str | None, matcher: Matcher) -> Pieces[Pattern | None]:
    if not pattern:
        return None
    try:
        return (yield from matcher.compile(pattern))
    except PatternRejectedError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION) from error


API = Api(request=ListTransactionsRequest, response=ListTransactionsResponse, handle=handle_list_transactions)
