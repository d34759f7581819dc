"""Limits of one operation that a client requests, so that its batch of records stays small in the metadata log.

Decoding has its own limit before them: a request has at most `kwire.protocol.schema.ELEMENTS_MAX` elements.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError

RECORDS_PER_OPERATION_MAX: Final = 10_000
"""Maximum records of one operation, as in Kafka."""
PARTITIONS_PER_REQUEST_MAX: Final = RECORDS_PER_OPERATION_MAX
"""Maximum new partitions of one request, as in Kafka. Each is one record. The records of the topics and of their
configurations come on top: their number is limited by the request's elements."""


def check_records(count: int) -> None:
    """Reject an operation that would write too many records at once. Raises KafkaError."""
    if count > RECORDS_PER_OPERATION_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the operation would write {count} records; at most {RECORDS_PER_OPERATION_MAX} are written at a time",
        )


def check_partitions(count: int) -> None:
    """Reject one topic with too many new partitions. Raises KafkaError."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Unable to perform excessively large batch operation: {count} partitions, at most "
            f"{PARTITIONS_PER_REQUEST_MAX} at a time",
        )
