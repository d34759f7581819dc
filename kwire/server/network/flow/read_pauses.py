"""Reasons why a connection is not read at the moment."""

from __future__ import annotations

import asyncio


class ReadPauses:
    """Reasons of one connection: reading is paused while there is any."""

    __slots__ = ("_reasons", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._reasons: set[str] = set()
        self._transport: asyncio.Transport | None = transport

    def __contains__(self, reason: str) -> bool:
        return reason in self._reasons

    def add(self, reason: str) -> None:
        if not self._reasons and self._transport is not None:
            self._transport.pause_reading()
        self._reasons.add(reason)

    def discard(self, reason: str) -> None:
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons and self._transport is not None:
                self._transport.resume_reading()

    def end(self) -> None:
        """Release the closed transport."""
        self._transport = None
