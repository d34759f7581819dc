"""ListTransactions: the transactional ids that a broker coordinates, and their states (KIP-664).

1  only those open for longer than a duration (KIP-994)
2  only those whose transactional id matches a regular expression (KIP-1152)
"""

from kwire.protocol.primitives import ProducerId, TransactionalId, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@message(key=66, kind="request", versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[string] = field("0+")
    """Empty lists all."""
    producer_id_filters: list[ProducerId] = field("0+")
    """Empty lists all."""
    duration_filter: int64 = field("1+", default=-1)
    """In ms; negative lists all."""
    transactional_id_pattern: string | None = field("2+", nullable="2+", default=None)
    """In the syntax of RE2/J; None and the empty string list all."""


@struct
class ListTransactionsTransactionState:
    transactional_id: TransactionalId = field("0+")
    producer_id: ProducerId = field("0+")
    transaction_state: string = field("0+")


@message(key=66, kind="response", versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    unknown_state_filters: list[string] = field("0+")
    transaction_states: list[ListTransactionsTransactionState] = field("0+")
