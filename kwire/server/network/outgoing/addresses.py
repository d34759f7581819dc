"""Addresses of the hosts that settings and quotas name, in the form that connections show.

Names are resolved on a separate thread: a name server may take half a minute to answer that it does not know a name.
Until then the last known address of a name counts; a name without an address matches no connection.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress


def address_of(host: str, *, flags: int = 0) -> str | None:
    """Return the address of a name, IPv4 first as in Kafka; None if it has none. May wait for a name server."""
    try:
        found = socket.getaddrinfo(host, None, flags=flags)
    except (OSError, ValueError):  # ValueError: not a valid name
        return None
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])


def shown_address(host: str, port: int) -> str:
    """Return host:port as clients write it: an IPv6 address in brackets (RFC 3986)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class AddressBook:
    """Addresses of the hosts that one setting names."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def find(self, host: str) -> str:
        """Return the address of a host. If it is unknown, return the host itself, which matches no connection."""
        return self._addresses.get(host, host)

    def resolve(self, hosts: Iterable[str], on_change: Callable[[], None]) -> None:
        """Resolve exactly these hosts. `on_change` is called when the address of a name has arrived or changed."""
        names = []
        known: dict[str, str] = {}
        for host in hosts:
            address = address_of(host, flags=socket.AI_NUMERICHOST)
            if address is None:
                names.append(host)
                address = self._addresses.get(host)
            if address is not None:
                known[host] = address
        self._addresses = known
        if not names:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._update({name: address_of(name) for name in names}, on_change)
            return

        def resolve_names() -> None:
            answers = {name: address_of(name) for name in names}
            with suppress(RuntimeError):  # the broker has stopped meanwhile
                loop.call_soon_threadsafe(self._update, answers, on_change)

        threading.Thread(target=resolve_names, name="kwire-addresses", daemon=True).start()

    def _update(self, answers: Mapping[str, str | None], on_change: Callable[[], None]) -> None:
        before = dict(self._addresses)
        for name, address in answers.items():
            if address is None:
                self._addresses.pop(name, None)
            else:
                self._addresses[name] = address
        if self._addresses != before:
            on_change()
