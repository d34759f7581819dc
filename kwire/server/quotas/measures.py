"""Measured usage of one kind of quota: one measure for each client with a limit.

Measures of the most recently seen clients are kept. A client whose measure was removed starts with an empty one,
as it would after a long pause.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from kwire.server.quotas.limits import Client, Limits, QuotaLimits
from kwire.server.quotas.rate import SampledRate

MEASURES_MAX = 10_000
"""Maximum number of measures: clients choose their client ids. A measure takes at most about 2 KB."""

NAME_LENGTH_MAX = 255
"""Longest client id that is kept as it is, of 32767 possible bytes. Longer ones are distinguished by their hashes."""

M = TypeVar("M")


class Measures(Generic[M]):
    """Limits of one quota key, and the measure of each client that has one."""

    def __init__(self, make: Callable[[], M]) -> None:
        self.limits: Limits = QuotaLimits({}, "")
        self._make = make
        self._by_client: OrderedDict[Client, M] = OrderedDict()

    def set_limits(self, limits: Limits) -> None:
        """Change the limits; the usage so far counts against the new ones."""
        self.limits = limits

    def find(self, client: Client) -> tuple[M, float] | None:
        """Return the client's measure and limit; None without a limit."""
        found = self.limits.find(*client) if self.limits else None
        if found is None:
            return None
        shared, limit = found
        if len(shared[1]) > NAME_LENGTH_MAX:
            shared = shared[0], f"#{hash(shared[1])}"
        measure = self._by_client.get(shared)
        if measure is None:
            if len(self._by_client) >= MEASURES_MAX:
                self._by_client.popitem(last=False)
            measure = self._by_client[shared] = self._make()
        else:
            self._by_client.move_to_end(shared)
        return measure, limit


class Rates(Measures[SampledRate]):
    """Measures for quotas on a rate of bytes or of time."""

    def record(self, client: Client, value: float, now_ms: int) -> int:
        """Count usage of a client; return how long it has to wait."""
        found = self.find(client)
        if found is None:
            return 0
        rate, limit = found
        rate.record(value, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def take_back(self, client: Client, value: float, now_ms: int) -> None:
        """Remove usage that was counted but did not happen."""
        found = self.find(client)
        if found is not None:
            found[0].record(-value, now_ms)
