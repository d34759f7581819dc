"""All listeners of a server: the parts that their connections share, their start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kwire.cluster.configs.settings import CurrentSettings
from kwire.server.network.connection_limits import ListenerSettings, limits_of, rejects_none
from kwire.server.network.flow.turns import Turns
from kwire.server.network.listener import ConnectionTable, Handle, Listener, sweep_connections
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.memory.receive_buffer import ReceiveBuffer
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.network.principal_builder import PrincipalBuilder, same_principal
from kwire.server.security.sasl.current_sasl import sasl_settings_at_start
from kwire.server.security.tls.node_tls import NodeTls
from kwire.server.settings.config import BrokerConfig, ListenerAddress, SettingError

UNLIMITED_MEMORY = 2**63 - 1


class Listeners:
    """Listening sockets of a server, and the table of its connections."""

    def __init__(
        self,
        config: BrokerConfig,
        settings: CurrentSettings,
        addresses: Sequence[ListenerAddress],
        *,
        tls: NodeTls,
        turns: Turns,
        on_request_error: Callable[[BaseException], None],
        rejected_ms: Callable[[str], int] = rejects_none,
        principal_builder: PrincipalBuilder = same_principal,
    ) -> None:
        """`on_request_error` is called with every error that made a request fail.

        `rejected_ms` is called with the address of each new connection. It returns the milliseconds until the
        connection is closed unserved, or 0 to serve it (KIP-612). Raises SettingError.
        """
        self._tls = tls
        self._principal_builder = principal_builder
        self._turns = turns
        self._on_request_error = on_request_error
        self._config = config
        self._settings = settings.of(ListenerSettings)
        self._addresses = addresses
        self._listeners: list[Listener] = []
        self._sasl_bytes_max = {
            address.name: sasl_settings_at_start(address, config).receive_bytes_max
            for address in addresses
            if config.security_protocols[address.name].uses_sasl
        }
        self.table = ConnectionTable()
        self.limits = limits_of(self._settings, rejected_ms)
        self.output = OutputMemory(self.limits.output_bytes_max)

    def update_limits(self, settings: ListenerSettings, altered: Mapping[str, str]) -> None:
        """Apply changed settings; `altered` are the texts of all that are altered now. Raises ConfigError."""
        self.limits.update(settings)
        self.limits.update_listeners({**self._config.values, **altered})

    @property
    def long_request_bytes(self) -> int:
        """Bytes of the long requests that are being served; requests that wait are not decoded yet and do not count."""
        return sum(connection.long_request_bytes for connection in self.table.connections)

    @property
    def first(self) -> Listener:
        """Listener that was configured first."""
        return self._listeners[0]

    async def bind(self) -> None:
        """Bind all addresses. Raises SettingError for one that cannot be bound; the earlier ones stay bound."""
        memory_max = self._settings.queued_bytes_max
        memory = RequestMemory(UNLIMITED_MEMORY if memory_max < 0 else memory_max)
        receive_buffer = ReceiveBuffer(asyncio.get_running_loop().call_soon)
        for address in self._addresses:
            listener = Listener(
                name=address.name,
                limits=self.limits,
                memory=memory,
                output=self.output,
                turns=self._turns,
                table=self.table,
                receive_buffer=receive_buffer,
                on_request_error=self._on_request_error,
                excludes_clients=self._excludes_clients(address.name),
                tls=self._tls.of(address.name),
                sasl_bytes_max=self._sasl_bytes_max.get(address.name),
                principal_builder=self._principal_builder,
            )
            try:
                await listener.bind(address.host, address.port)
            except (OSError, UnicodeError) as error:
                raise _cannot_listen(address, error) from error
            self._listeners.append(listener)
        self.limits.update_listeners(self._config.values)

    def _excludes_clients(self, name: str) -> bool:
        """Return True if only brokers and controllers use the listener."""
        config = self._config
        if name in config.controller_listener_names:
            return True
        return name == config.inter_broker_listener_name and len(self._addresses) > 1

    async def serve(self, handle_of: Callable[[str], Handle]) -> None:
        """Accept connections; `handle_of` returns the request handler of a listener. Raises SettingError."""
        for address, listener in zip(self._addresses, self._listeners, strict=True):
            try:
                await listener.serve(handle_of(address.name))
            except OSError as error:
                raise _cannot_listen(address, error) from error

    async def sweep(self) -> None:
        """Close connections that are idle or read nothing, for as long as the server runs."""
        await sweep_connections(self.table, self.limits)

    def port_of(self, address: ListenerAddress) -> int:
        """Return an address's port; for port 0, the port that was bound."""
        return address.port or next(listener.port for listener in self._listeners if listener.name == address.name)

    def ports(self) -> dict[str, int]:
        """Return the port of each listener, by name."""
        return {listener.name: listener.port for listener in self._listeners}

    def stop_accepting(self) -> None:
        for listener in self._listeners:
            listener.stop_accepting()

    def close(self, reason: str) -> None:
        """Stop accepting connections, and close those that are open, at once."""
        self.stop_accepting()
        self.close_connections(reason)

    def close_connections(self, reason: str) -> None:
        for connection in list(self.table.connections):
            connection.close_now(reason)


def _cannot_listen(address: ListenerAddress, error: OSError | UnicodeError) -> SettingError:
    where = f"listeners: cannot listen on {shown_address(address.host, address.port)}"
    if isinstance(error, UnicodeError):
        return SettingError(f"{where} ({address.host!r} can be no name); name a host of this machine")
    return SettingError(
        f"{where} ({error.strerror or error}); free the port or choose another, or port 0 for any free one"
    )
