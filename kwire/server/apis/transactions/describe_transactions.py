"""DescribeTransactions: return the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.transaction.states import STATE_NAMES
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> Pieces[DescribeTransactionsResponse]:
    transactional_ids = list(dict.fromkeys(request.transactional_ids))
    states = yield from mapped(transactional_ids, partial(_described, context))
    return DescribeTransactionsResponse(transaction_states=states)


def _described(context: RequestContext, transactional_id: str) -> DescribeTransactionsTransactionState:
    try:
        if not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        transaction = context.services.transactions.describe(transactional_id)
    except KafkaError as error:
        return DescribeTransactionsTransactionState(transactional_id=transactional_id, error_code=error.code)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        if context.allows_topic(topic):
            by_topic.setdefault(topic, []).append(index)
    return DescribeTransactionsTransactionState(
        transactional_id=transactional_id,
        transaction_state=STATE_NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[DescribeTransactionsTopicData(topic=name, partitions=found) for name, found in by_topic.items()],
    )


API = Api(
    request=DescribeTransactionsRequest, response=DescribeTransactionsResponse, handle=handle_describe_transactions
)
