"""Gates of listeners with SASL, in front of their dispatchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.server.network.listener import Handle
from kwire.server.network.listeners import Listeners
from kwire.server.node.node import Node
from kwire.server.requests.authentication_gate import AuthenticationGate
from kwire.server.security.sasl.bearer_keys import BearerKeys
from kwire.server.security.sasl.current_sasl import CurrentSaslSettings
from kwire.server.security.sasl.listener_sasl import ListenerSasl
from kwire.server.security.sasl.oauthbearer import BearerSettings, BearerTokens

if TYPE_CHECKING:
    from kwire.server.security.sasl.gssapi_server import GssapiServer
    from kwire.server.security.sasl.kerberos_settings import KerberosSettings


def gates(node: Node, listeners: Listeners, dispatcher_of: Callable[[str], Handle]) -> Callable[[str], Handle]:
    """Return a function from a listener's name to its request handler: the dispatcher, behind a gate if it has SASL."""

    def handle_of(name: str) -> Handle:
        dispatcher = dispatcher_of(name)
        if not node.config.security_protocols[name].uses_sasl:
            return dispatcher
        settings = CurrentSaslSettings(name, node.config, node.settings, node.dynamic_configs)
        tokens = _bearer_tokens(node, settings().bearer_tokens)
        kerberos = _kerberos(node, name, settings().kerberos)
        gate = AuthenticationGate(
            ListenerSasl(
                name, settings, lambda: node.metadata_log.image_for_logins, node.token_logins, tokens, kerberos
            ),
            dispatcher,
            settings=node.settings,
            limits=listeners.limits,
            unauthenticated=listeners.table.unauthenticated,
            now_ms=node.clock.monotonic_ms,
            principal_builder=node.runtime.principal_builder,
        )
        return gate.handle

    return handle_of


def _bearer_tokens(node: Node, settings: BearerSettings | None) -> BearerTokens | None:
    """Return the verifier of a listener's tokens, whose keys are read from now on."""
    if settings is None:
        return None
    assert settings.keys_url is not None, "the settings were checked"
    keys = BearerKeys(
        settings.keys_url,
        node.workers,
        refresh_ms=settings.refresh_ms,
        retry_ms=settings.retry_ms,
        retry_ms_max=settings.retry_ms_max,
    )
    node.background.run(keys.run())
    return BearerTokens(settings, keys, node.clock.wall_ms)


def _kerberos(
    node: Node, listener_name: str, settings: KerberosSettings | None
) -> Callable[[KerberosSettings], GssapiServer] | None:
    """Return a function that begins an exchange of GSSAPI; None if the listener does not enable it."""
    if settings is None:
        return None
    from kwire.server.security.sasl.gssapi_server import (  # noqa: PLC0415 as in sasl_settings
        Exchange,
        GssapiServer,
        KerberosAcceptor,
    )

    acceptor = KerberosAcceptor(listener_name, settings)
    return lambda current: GssapiServer(Exchange(acceptor, current), node.workers)
