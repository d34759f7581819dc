"""Errors of a log that a client did not cause; DiskFailure is in disk.py."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError


class CorruptLogError(KafkaError):
    """Corrupt data in a log. Clients receive a storage error; the replica must be repaired from another one."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class NotReadyError(Exception):
    """Result that is not ready, because it is being derived from batches or compared with them, one step per call.

    The caller retries in the loop's next turn (not_ready.py).
    """


class NotCachedError(Exception):
    """Bytes of a fetch that are not in the page cache; a worker reads them for it or the next one (cold_reads.py)."""


class LogClosedError(KafkaError):
    """Closed log: the broker is shutting down or does not open it, so an append would not be durable."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptIndexError(Exception):
    """Index file that does not belong to its segment or is incomplete."""
