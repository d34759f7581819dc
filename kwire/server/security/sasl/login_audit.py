"""Audit of logins: log lines, counts, and the delay of failures by address.

A successful login is logged at DEBUG, a failed one at INFO; repeated lines of one address are counted and logged once
a minute. User names are shown escaped and shortened. Passwords, proofs and tokens never come here.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from kwire.repeated_messages import RepeatedMessages

logger = logging.getLogger(__name__)

FAILURES_WITHOUT_BACKOFF: Final = 20
"""Failures of an address within FORGET_MS that are answered after the configured delay; each further one doubles it."""
DELAY_MS_MAX: Final = 2_000
"""Longest delay by back-off, in milliseconds; a longer configured delay is kept."""
FORGET_MS: Final = 60_000
ADDRESSES_MAX: Final = 10_000
"""Most addresses with failures that are stored; those with the oldest failures are dropped first."""
SHOWN_MAX: Final = 64
"""Most characters that are shown of a user name."""


class LoginAudit:
    """Audit of the logins at all listeners of a server."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._messages = RepeatedMessages(logger, now_ms)
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Number of failures by address, and the time of the last one."""
        self.counts: Counter[tuple[str, str, bool]] = Counter()
        """Number of logins by listener, mechanism (empty if none was chosen) and success."""

    def succeed(self, *, host: str, listener: str, mechanism: str, user: str, what: str) -> None:
        """Count and log a successful login; `what` is authentication or re-authentication."""
        self.counts[listener, mechanism, True] += 1
        if logger.isEnabledFor(logging.DEBUG):
            self._messages.log(
                logging.DEBUG,
                (host, listener, mechanism, user, what),
                "successful %s of %s from %s at listener %s with %s",
                what,
                shown(user),
                host,
                listener,
                mechanism,
            )

    def fail(
        self, *, host: str, listener: str, mechanism: str, user: str, what: str, reason: str, delay_ms: int
    ) -> int:
        """Count and log a failed login. Return the milliseconds after which it is answered, at least `delay_ms`."""
        self.counts[listener, mechanism, False] += 1
        self._messages.log(
            logging.INFO,
            (host, listener),
            "failed %s of %s from %s at listener %s with %s: %s",
            what,
            shown(user),
            host,
            listener,
            mechanism or "no mechanism",
            reason,
        )
        return self._backoff(self._count(host), delay_ms)

    def _count(self, host: str) -> int:
        now = self._now_ms()
        count, last = self._failures.pop(host, (0, now))
        count = count + 1 if now - last < FORGET_MS else 1
        self._failures[host] = count, now
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        return count

    def _backoff(self, failures: int, delay_ms: int) -> int:
        doublings = min(max(0, failures - FAILURES_WITHOUT_BACKOFF), 16)
        return max(delay_ms, min(delay_ms << doublings, DELAY_MS_MAX))


def shown(user: str) -> str:
    """Return a user name for a log line: quoted, in ASCII, shortened."""
    return ascii(user if len(user) <= SHOWN_MAX else f"{user[:SHOWN_MAX]}...")
