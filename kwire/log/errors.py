"""What can go wrong with a log besides what a client did; DiskFailure is in disk.py."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError


class CorruptLogError(KafkaError):
    """Stored bytes are not what was stored. Clients see a storage error; the replica must be repaired from a peer."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class NotReadyError(Exception):
    """What a log is asked for is being derived from its batches, or compared with them, a step with each call.

    Call again in the loop's next turn (not_ready.py).
    """


class NotCachedError(Exception):
    """A fetch needs bytes that are not in the page cache; a worker reads them, for it or the next (cold_reads.py)."""


class LogClosedError(KafkaError):
    """The broker stops and has closed the log, or does not open it: what is appended now would not be durable."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptIndexError(Exception):
    """An index file that does not belong to its segment or was not written to its end."""
