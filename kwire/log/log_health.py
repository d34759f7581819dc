"""Whether a log can be used: why it is offline, whether its disk is full, and who hears of it.

A full disk leaves a log usable. Any other failure of the disk takes it offline for good, because what was written can
no longer be known; so does damage to what is stored.
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
"""Between two lines that say that the disk is full: every append would write one."""

T = TypeVar("T")


class LogHealth:
    """The state of one log."""

    def __init__(self, name: str, clock: Clock) -> None:
        """`name` is topic-partition, for log lines and errors."""
        self._name = name
        self._clock = clock
        self.failure: DiskFailure | CorruptLogError | LogClosedError | None = None
        """Why the log is offline; set once."""
        self.is_closing = False
        """Whether the broker stops: appends are refused, flushes are not."""
        self.lacks_space = False
        """Whether the disk was full at the last write."""
        self.on_failure: Callable[[DiskFailure], None] | None = None
        """Called once when the log goes offline: its directory goes with it."""
        self.on_trouble: Callable[[], None] | None = None
        """Called when the log goes offline by itself, and whenever it lacks space."""
        self._next_message_ms = 0.0

    @property
    def takes_no_appends(self) -> bool:
        """Whether the log is offline, or its broker stops."""
        return self.failure is not None or self.is_closing

    def guard(self, call: Callable[[], T], *, logs: bool = True) -> T:
        """Call what uses files besides appends and reads; any failure except a full disk takes the log offline.

        Without `logs` the caller logs that the disk is full. Raises KafkaError if it is, or the log is offline;
        DiskFailure, CorruptLogError.
        """
        if self.failure is not None:
            raise self.refusal()
        try:
            return call()
        except DiskFullError as error:
            raise self.no_space(error, logs=logs) from error
        except DiskFailure as error:
            raise self.fail(error) from error
        except CorruptLogError as error:
            raise self.damaged(error) from error

    def refusal(self) -> KafkaError:
        """What a request to a log gets that is offline or being closed."""
        state = "closed" if self.is_closing else "offline"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self._name} is {state}")

    def end(self, reason: DiskFailure | CorruptLogError | LogClosedError) -> None:
        """Take the log offline without a message: whoever asks for it knows."""
        self.failure = self.failure or reason

    def damaged(self, error: CorruptLogError) -> CorruptLogError:
        """A stored batch is not what was written: this replica must neither serve nor take anything any more.

        Its directory's other logs go on: one bad batch says little about the device.
        """
        if self.failure is None:
            self.failure = error
            logger.critical("The log of %s goes offline, for it is damaged: %s", self._name, error)
            self._report_trouble()
        return error

    def fail(self, failure: DiskFailure) -> DiskFailure:
        """A file could not be used: the log goes offline, unless a later call may succeed."""
        if self.failure is None and not isinstance(failure, DiskFullError):
            self.failure = failure
            logger.error("The log of %s goes offline: %s", self._name, failure)
            if self.on_failure is not None:
                self.on_failure(failure)
        return failure

    def no_space(self, error: DiskFullError, *, logs: bool = True) -> KafkaError:
        """The disk is full; the log stays as it is."""
        self.lacks_space = True
        self._report_trouble()
        now_ms = self._clock.monotonic_ms()
        if logs and now_ms >= self._next_message_ms:
            self._next_message_ms = now_ms + NO_SPACE_PAUSE_MS
            logger.error("The disk is full: %s; %s stays as it is", error, self._name)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    def space_found(self) -> None:
        """There is space again."""
        self.lacks_space = False

    def _report_trouble(self) -> None:
        if self.on_trouble is not None:
            self.on_trouble()
