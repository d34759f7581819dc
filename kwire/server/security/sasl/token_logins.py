"""Logins by delegation token: which tokens are accepted, and SCRAM credentials that follow from HMACs (KIP-48).

The password of a token is the base64 form of its HMAC. Its credential is derived when a client first logs in with it,
outside the event loop. Attempts with an id that no token has derive nothing.
"""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from kwire.cluster.metadata.delegation_tokens import USER_TYPE, TokenSettings, expiry_ms, is_expired, token_hmac
from kwire.cluster.metadata.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, make_credential, salt_password
from kwire.protocol.messages.metadata_records import DelegationTokenRecord
from kwire.seams import Workers

CREDENTIALS_MAX: Final = 10_000
"""Most derived credentials that are kept, some hundred bytes each; those used longest ago are dropped."""

_Key = tuple[ScramMechanism, str]


class TokenLogins:
    """Logins by delegation token at all listeners of a node."""

    def __init__(self, settings: TokenSettings, workers: Workers, wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._workers = workers
        self._wall_ms = wall_ms
        self._credentials: OrderedDict[_Key, ScramCredential] = OrderedDict()
        self._deriving = asyncio.Lock()
        """Held while a credential is derived: however many clients log in, they use one worker."""

    def rejection(self, token: DelegationTokenRecord | None) -> str:
        """Return the reason for which no client can log in with a token, for the log; empty without one."""
        if not self._settings.secret_key:
            return "delegation tokens are not enabled"
        if token is None:
            return "there is no such delegation token"
        if is_expired(token, self._wall_ms()):
            return "the delegation token has expired"
        if not token.owner.startswith(f"{USER_TYPE}:"):
            return "the owner of the delegation token is no user"
        return ""

    def lifetime_ms(self, token: DelegationTokenRecord) -> float:
        """Return the milliseconds for which a session with the token lasts, at least 1."""
        return max(1.0, expiry_ms(token) - self._wall_ms())

    def derived(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramCredential | None:
        """Return the credential of a token for a salt; None if it is not derived yet."""
        found = self._credentials.get((mechanism, token_id))
        if found is None or found.salt != salt:
            return None
        self._credentials.move_to_end((mechanism, token_id))
        return found

    async def derive(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramCredential:
        """Return the credential of a token for a salt."""
        async with self._deriving:
            found = self.derived(mechanism, token_id, salt)
            if found is None:
                password = base64.b64encode(token_hmac(self._settings.key, token_id)).decode()
                found = await self._workers.run(partial(_derive, mechanism, password, salt))
                self._credentials[mechanism, token_id] = found
                if len(self._credentials) > CREDENTIALS_MAX:
                    self._credentials.popitem(last=False)
        return found


def _derive(mechanism: ScramMechanism, password: str, salt: bytes) -> ScramCredential:
    salted = salt_password(mechanism, password, salt=salt, iterations=ITERATIONS_MIN)
    return make_credential(mechanism, salted, salt=salt, iterations=ITERATIONS_MIN)
