"""Clients of groups in tests."""

from __future__ import annotations

from kwire.coordinator.group_coordinator import Client


def client_named(name: str) -> Client:
    """Return a client that may see all topics."""
    return Client(client_id=name, host="/127.0.0.1", allows_topic=lambda _: True)
