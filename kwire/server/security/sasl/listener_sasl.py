"""SASL of one listener: its current settings, and the exchanges that it begins with clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.server.security.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN, ServerMechanism
from kwire.server.security.sasl.oauthbearer import BearerTokens, OAuthBearerServer
from kwire.server.security.sasl.plain import PlainServer
from kwire.server.security.sasl.sasl_settings import SaslSettings
from kwire.server.security.sasl.scram import MECHANISMS, ScramServer, UnknownUsers, Users
from kwire.server.security.sasl.token_logins import TokenLogins

if TYPE_CHECKING:
    from kwire.server.security.sasl.kerberos_settings import KerberosSettings


class ListenerSasl:
    """Mechanisms of one listener."""

    def __init__(
        self,
        name: str,
        settings: Callable[[], SaslSettings],
        users: Callable[[], Users],
        token_logins: TokenLogins,
        bearer_tokens: BearerTokens | None = None,
        new_kerberos: Callable[[KerberosSettings], ServerMechanism] | None = None,
    ) -> None:
        """`settings` returns the current settings, `users` the committed metadata.

        `token_logins` are those of the node. `bearer_tokens` verifies tokens, `new_kerberos` begins an exchange of
        GSSAPI; None if OAUTHBEARER or GSSAPI was not enabled at start, and thus cannot be used.
        """
        self.name = name
        self._settings = settings
        self._users = users
        self._token_logins = token_logins
        self._bearer_tokens = bearer_tokens
        self._new_kerberos = new_kerberos
        self._unknown_users = UnknownUsers()

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Enabled mechanisms."""
        needed = {OAUTHBEARER: self._bearer_tokens, GSSAPI: self._new_kerberos}
        return tuple(each for each in self._settings().mechanisms if needed.get(each, each) is not None)

    def reauthentication_ms(self, mechanism: str) -> int:
        """Return connections.max.reauth.ms of a mechanism; 0 if sessions have no end."""
        return self._settings().reauthentication_ms.get(mechanism, 0)

    def begin(self, mechanism: str) -> ServerMechanism | None:
        """Return a new exchange; None if the mechanism is not enabled."""
        settings = self._settings()
        if mechanism not in self.mechanisms:
            return None
        if mechanism == OAUTHBEARER:
            assert self._bearer_tokens is not None, "the mechanism is not enabled without"
            return OAuthBearerServer(self._bearer_tokens)
        if mechanism == GSSAPI:
            assert self._new_kerberos is not None, "the mechanism is not enabled without"
            assert settings.kerberos is not None, "the mechanism is enabled"
            return self._new_kerberos(settings.kerberos)
        if mechanism == PLAIN:
            return PlainServer(settings.modules[PLAIN].options)
        return ScramServer(MECHANISMS[mechanism], self._users, self._unknown_users, self._token_logins)
