"""What the broker counts. Plain integers on the hot path; names are given to them where they are shown."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.protocol.api_keys import ApiKey


class Metrics:
    """Counters of a broker."""

    def __init__(self) -> None:
        self.requests: dict[ApiKey, int] = {}

    def watch_apis(self, keys: Iterable[ApiKey]) -> None:
        for key in keys:
            self.requests.setdefault(key, 0)

    def request(self, key: ApiKey) -> None:
        self.requests[key] += 1
