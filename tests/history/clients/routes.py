"""Routes of a client of plain frames: partition leaders, and the coordinator of its transactional id."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.history.clients.common import partition_of
from tests.support.raw_client import RawClient

FIND_VERSION = 4
METADATA_VERSION = 12
TRANSACTIONAL = 1


class Routes:
    """Connections by address, leaders and coordinator. After an error they are looked up again at the next broker."""

    def __init__(self, transactional_id: str, bootstrap_servers: str, request_seconds: float) -> None:
        self._transactional_id = transactional_id
        self._request_seconds = request_seconds
        self._servers = itertools.cycle(bootstrap_servers.split(","))
        self._server = next(self._servers)
        self._clients: dict[str, RawClient] = {}
        self._coordinator: str | None = None
        self._leaders: dict[str, str] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.forget()

    def forget(self) -> None:
        """Drop all routes, because leaders may have changed."""
        self._coordinator = None
        self._leaders.clear()

    def ask_coordinator(self, request: Any, version: int) -> Any:
        """Send a request to the coordinator once. Raises OSError."""
        if self._coordinator is None:
            find = FindCoordinatorRequest(key_type=TRANSACTIONAL, coordinator_keys=[self._transactional_id])
            [found] = self._ask_anybody(find, FIND_VERSION).coordinators
            if found.error_code:
                raise ConnectionError(f"no coordinator: {found.error_code}")
            self._coordinator = f"{found.host}:{found.port}"
        return self._ask(self._coordinator, request, version)

    def ask_leader(self, key: str, request: Any, version: int) -> Any:
        """Send a request to a partition's leader once. Raises OSError."""
        if key not in self._leaders:
            self._leaders[key] = self._find_leader(key)
        return self._ask(self._leaders[key], request, version)

    def _find_leader(self, key: str) -> str:
        name, index = partition_of(key)
        reported = self._ask_anybody(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), METADATA_VERSION)
        [leader] = [each.leader_id for each in reported.topics[0].partitions if each.partition_index == index] or [-1]
        for broker in reported.brokers:
            if broker.node_id == leader:
                return f"{broker.host}:{broker.port}"
        self._server = next(self._servers)
        raise ConnectionError(f"{key} has no leader that is known")

    def _ask_anybody(self, request: Any, version: int) -> Any:
        try:
            return self._ask(self._server, request, version)
        except OSError:
            self._server = next(self._servers)
            raise

    def _ask(self, address: str, request: Any, version: int) -> Any:
        try:
            if address not in self._clients:
                self._clients[address] = RawClient(address, client_id=self._transactional_id)
                self._clients[address].socket.settimeout(self._request_seconds)
            return self._clients[address].ask(request, version)
        except (OSError, AssertionError):
            self.forget()
            with suppress(KeyError):
                self._clients.pop(address).close()
            raise
