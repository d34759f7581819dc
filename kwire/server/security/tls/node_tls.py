"""TLS of a node: of the listeners that it binds, and of those that it connects to on other nodes.

Stores are read in workers: at start, for the check of a change of this node's settings, when a change is committed, and
when a file has changed. A change may set a value again, because the content of the file is new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kwire.seams import Workers
from kwire.server.security.tls.tls_settings import ListenerRole, TlsRejected, TlsSettings, settings_of_listener
from kwire.server.settings.config import BrokerConfig, SettingError
from kwire.server.settings.security_protocols import SecurityProtocol

if TYPE_CHECKING:
    from kwire.server.security.tls.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S: Final = 60.0
"""Time between two looks at the files of stores, as of kubelet at mounted secrets."""


class NodeTls:
    """TLS of a node's listener names; empty if none of them uses TLS."""

    def __init__(self, config: BrokerConfig, workers: Workers) -> None:
        self._config = config
        self._workers = workers
        self._listeners: dict[str, ListenerTls] = {}
        self._committed: tuple[Mapping[str, str], Mapping[str, Any]] = {}, {}
        """Committed settings, for the next reload."""
        self._was_committed = asyncio.Event()

    async def open(self, values: Mapping[str, Any]) -> None:
        """Open the stores that the settings at start name. Raises SettingError."""
        roles = _roles(self._config)
        if not roles:
            return
        # A broker without TLS starts without the library for certificates, whose import takes long.
        from kwire.server.security.tls.listener_tls import ListenerTls, open_tls  # noqa: PLC0415

        for role in roles:
            settings = self._settings(role, {}, values)
            try:
                opened = await self._workers.run(partial(open_tls, role, settings))
            except TlsRejected as error:
                raise error.on_listener(role.name) from None
            self._listeners[role.name] = ListenerTls(role, opened)

    def of(self, name: str) -> ListenerTls | None:
        """Return the TLS of a listener name; None for a listener without TLS."""
        return self._listeners.get(name)

    async def check(self, texts: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Raise SettingError if settings of this node cannot replace the present ones; see values_of_listener."""
        for listener in self._listeners.values():
            settings = self._settings(listener.role, texts, values)
            try:
                await self._workers.run(partial(listener.open_next, settings, is_start=False))
            except TlsRejected as error:
                why = error.on_listener(listener.role.name)
                raise SettingError(f"Validation of dynamic config update of SSLFactory failed: {why}") from None

    def reload_soon(self, texts: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Let run() apply committed settings, and read the stores again."""
        self._committed = texts, values
        self._was_committed.set()

    async def run(self) -> None:
        """Use the stores of committed settings and of changed files for new connections, while the node runs."""
        await self._was_committed.wait()
        await self._reload_all(is_start=True)
        while True:
            await self._commit_or_interval()
            if self._was_committed.is_set():
                await self._reload_all(is_start=False)
            else:
                await self._reload_changed_files()

    async def _commit_or_interval(self) -> None:
        if not self._listeners:
            await self._was_committed.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH_INTERVAL_S):
                await self._was_committed.wait()

    async def _reload_all(self, *, is_start: bool) -> None:
        self._was_committed.clear()
        texts, values = self._committed
        for listener in self._listeners.values():
            await self._reload(listener, texts, values, is_start=is_start)

    async def _reload_changed_files(self) -> None:
        texts, values = self._committed
        for listener in self._listeners.values():
            if await self._workers.run(listener.has_new_files):
                await self._reload(listener, texts, values, is_start=False)

    async def _reload(
        self, listener: ListenerTls, texts: Mapping[str, str], values: Mapping[str, Any], *, is_start: bool
    ) -> None:
        """Replace the contexts of a listener, or log why it keeps its present ones."""
        name = listener.role.name
        try:
            settings = self._settings(listener.role, texts, values)
            listener.replace(await self._workers.run(partial(listener.open_next, settings, is_start=is_start)))
        except TlsRejected as error:
            logger.error("listener %s keeps its certificate: %s", name, error.on_listener(name))  # noqa: TRY400
        except SettingError as error:
            logger.error("listener %s keeps its certificate: %s", name, error)  # noqa: TRY400
        except Exception:
            logger.exception("listener %s keeps its certificate", name)

    def _settings(self, role: ListenerRole, texts: Mapping[str, str], values: Mapping[str, Any]) -> TlsSettings:
        """Return the settings of a listener name; `texts` are the dynamic ones, which have precedence."""
        protocol = self._config.security_protocols[role.name]
        return settings_of_listener(role.name, protocol, {**self._config.values, **texts}, values)


def _roles(config: BrokerConfig) -> Sequence[ListenerRole]:
    """Return the listener names with TLS that a node uses."""
    bound = [each.name for each in (*config.listeners, *config.controller_listeners)]
    outgoing = [config.controller_listener_names[0]]
    if config.is_broker:
        outgoing.append(config.inter_broker_listener_name)
    return [
        ListenerRole(
            name=name,
            is_bound=name in bound,
            is_outgoing=name in outgoing,
            uses_sasl=config.security_protocols[name].uses_sasl,
            trusts_itself=name in bound and name == config.inter_broker_listener_name,
        )
        for name in dict.fromkeys([*bound, *outgoing])
        if config.security_protocols.get(name, SecurityProtocol.PLAINTEXT).uses_tls
    ]
