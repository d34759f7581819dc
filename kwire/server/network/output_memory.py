"""The bytes of answers that clients have not taken yet, over all connections, under a limit.

A connection whose output is more than its socket takes says so, and says when it has drained. Answers that may be
large ask for room first: each gets a part of what is left, so that many readers get smaller answers and not none. When
readers that do not read still fill the limit, the one that has not drained for longest is dropped, for the others'
sake: its client comes back, if there is one, and asks again.
"""

from __future__ import annotations

from typing import Protocol

ANSWER_BYTES_LEAST = 1024 * 1024
"""Room that an answer has in any case: the default max.partition.fetch.bytes."""
PART = 4
"""One answer may take a fourth of what is left."""


class Writer(Protocol):
    """What holds output."""

    @property
    def unsent_bytes(self) -> int: ...

    def abort(self, why: str) -> None: ...


class OutputMemory:
    """A budget of bytes shared by the connections of a broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.promised_bytes = 0
        self._unsent: dict[Writer, int] = {}
        """By the time since when they have not drained, the longest first."""

    def room(self) -> int:
        """Bytes that the next answer may have."""
        return max(ANSWER_BYTES_LEAST, (self.limit_bytes - self.used_bytes - self.promised_bytes) // PART)

    def promise(self, size: int) -> None:
        """An answer grows by so much, or shrinks, that is not written yet: others are made meanwhile."""
        self.promised_bytes += size

    def fulfil(self, size: int) -> None:
        """It is written; what its client does not take is held from now on."""
        self.promised_bytes -= size
        assert self.promised_bytes >= 0, "more answers written than promised"

    def hold(self, writer: Writer, size: int) -> None:
        """The writer has so much unsent."""
        self.used_bytes += size - self._unsent.get(writer, 0)
        self._unsent[writer] = size
        if self.used_bytes > self.limit_bytes:
            self._make_room()

    def release(self, writer: Writer) -> None:
        """The writer has drained, or is gone."""
        self.used_bytes -= self._unsent.pop(writer, 0)

    def _make_room(self) -> None:
        self._unsent = {writer: writer.unsent_bytes for writer in self._unsent}
        self.used_bytes = sum(self._unsent.values())
        while self.used_bytes > self.limit_bytes and len(self._unsent) > 1:
            slowest = next(iter(self._unsent))
            self.release(slowest)
            slowest.abort("others need the memory of its unread answers")
