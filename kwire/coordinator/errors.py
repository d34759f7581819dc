"""Errors for a coordinator's client if the internal partition rejects an append."""

from __future__ import annotations

from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError

_CLIENT_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes by the log's code. Clients of a coordinator handle these; the log's codes would mislead them."""


def coordinator_error(error: KafkaError | DiskFailure) -> KafkaError:
    """Return the error that clients of a coordinator expect for an error of the log."""
    if isinstance(error, DiskFailure):
        return KafkaError(ErrorCode.NOT_COORDINATOR, str(error))
    code = _CLIENT_CODES.get(error.code)
    return error if code is None else KafkaError(code, error.message)
