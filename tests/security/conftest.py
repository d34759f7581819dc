"""Fixtures: one broker for all tests of a module."""

from tests.server.conftest import broker, client

__all__ = ["broker", "client"]
