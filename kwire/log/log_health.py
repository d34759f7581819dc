"""Health of a log: why it is offline, whether its disk is full, and the callbacks for both.

A full disk leaves a log usable. Any other disk failure takes it offline permanently, because the content of its files
is then uncertain. Damage to stored data does the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError, LogClosedError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

NO_SPACE_PAUSE_MS: Final = 10_000.0
"""Pause between log lines about a full disk, which every append would otherwise write."""

T = TypeVar("T")


class LogHealth:
    """Health of one log."""

    def __init__(self, name: str, clock: Clock) -> None:
        """Create the state of a healthy log. `name` is topic-partition, for log lines and errors."""
        self._name = name
        self._clock = clock
        self.failure: DiskFailure | CorruptLogError | LogClosedError | None = None
        """Reason why the log is offline; set once."""
        self.is_closing = False
        """True while the broker shuts down: appends are rejected, flushes are not."""
        self.lacks_space = False
        """True if the disk was full at the last write."""
        self.rejects_clients = False
        """True if the device has fewer free bytes than log.dirs.free.bytes.min: only batches of clients are rejected.
        """
        self.on_failure: Callable[[DiskFailure], None] | None = None
        """Callback for a disk failure that takes the log offline, and its directory too; called once."""
        self.on_trouble: Callable[[], None] | None = None
        """Callback for damage to the log, and for each write that fails because the disk is full."""
        self._next_message_ms = 0.0

    @property
    def rejects_appends(self) -> bool:
        """True if the log is offline or its broker shuts down."""
        return self.failure is not None or self.is_closing

    def guard(self, call: Callable[[], T], *, logs: bool = True) -> T:
        """Run a file operation other than append or read; any failure except a full disk takes the log offline.

        Without `logs` the caller logs that the disk is full. Raises KafkaError if it is, or if the log is offline; also
        DiskFailure, CorruptLogError.
        """
        if self.failure is not None:
            raise self.rejection()
        try:
            return call()
        except DiskFullError as error:
            raise self.no_space(error, logs=logs) from error
        except DiskFailure as error:
            raise self.fail(error) from error
        except CorruptLogError as error:
            raise self.damaged(error) from error

    def rejection(self) -> KafkaError:
        """Return the error for requests to a log that is offline or being closed."""
        state = "closed" if self.is_closing else "offline"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self._name} is {state}")

    def append_rejection(self) -> KafkaError:
        """Return the error for an append to a log that is offline, is being closed, or is completing a truncation."""
        if self.rejects_appends:
            return self.rejection()
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self._name} is still completing a truncation; retry"
        )

    def too_little_space(self) -> KafkaError:
        """Return the error for a client's batch while the log rejects them."""
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk of {self._name} has fewer free bytes than log.dirs.free.bytes.min; "
            "delete records or topics, or lower the setting",
        )

    def end(self, reason: DiskFailure | CorruptLogError | LogClosedError) -> None:
        """Take the log offline without a log message; the caller has reported the reason."""
        self.failure = self.failure or reason

    def damaged(self, error: CorruptLogError) -> CorruptLogError:
        """Take the log offline after a stored batch was found damaged: the replica must not serve or accept records.

        The other logs of its directory continue, because one bad batch says little about the device.
        """
        if self.failure is None:
            self.failure = error
            logger.critical("The log of %s goes offline because it is damaged: %s", self._name, error)
            self._report_trouble()
        return error

    def fail(self, failure: DiskFailure) -> DiskFailure:
        """Take the log offline after a file operation failed, unless a later call may succeed."""
        if self.failure is None and not isinstance(failure, DiskFullError):
            self.failure = failure
            logger.error("The log of %s goes offline: %s", self._name, failure)
            if self.on_failure is not None:
                self.on_failure(failure)
        return failure

    def no_space(self, error: DiskFullError, *, logs: bool = True) -> KafkaError:
        """Record that the disk is full, and return the error for the request; the log is unchanged."""
        self.lacks_space = True
        self._report_trouble()
        now_ms = self._clock.monotonic_ms()
        if logs and now_ms >= self._next_message_ms:
            self._next_message_ms = now_ms + NO_SPACE_PAUSE_MS
            logger.error("The disk is full: %s; %s stays as it is", error, self._name)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    def space_found(self) -> None:
        """Record that there is space again."""
        self.lacks_space = False

    def _report_trouble(self) -> None:
        if self.on_trouble is not None:
            self.on_trouble()
