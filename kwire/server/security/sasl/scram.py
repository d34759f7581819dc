"""SCRAM-SHA-256 and SCRAM-SHA-512 without channel binding: messages, server and client (RFC 5802, RFC 7677).

The nonce must be equal, as in Apache Kafka 4.3.1: librdkafka before 2.6.1 repeats the client's nonce and is refused by
both. The server is stricter than Kafka's in one check: the channel binding must repeat the GS2 header.
An unknown user gets a salt as well and fails at the proof, after the same computations and with the same message.
With the extension tokenauth=true, the user name is the id of a delegation token (KIP-48).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from kwire.cluster.metadata.persistent_map import iter_changed_keys
from kwire.cluster.metadata.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramCredentials,
    ScramMechanism,
    salt_of,
    salt_password,
)
from kwire.protocol.messages.metadata_records import DelegationTokenRecord
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.plain import check_authorization_id
from kwire.server.security.sasl.token_logins import TokenLogins

MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Longest message of a client, in bytes."""
_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\0]+)*"
_TOKEN_EXTENSION: Final = re.compile(r",tokenauth=true(?:,|\Z)", re.IGNORECASE)
_BASE64: Final = r"[A-Za-z0-9/+]*={0,2}"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class Users(Protocol):
    """Users of a cluster with SCRAM credentials, and delegation tokens by id."""

    @property
    def scram(self) -> ScramCredentials: ...

    @property
    def delegation_tokens(self) -> Mapping[str, DelegationTokenRecord]: ...


def new_nonce() -> str:
    """Return a nonce that cannot be guessed."""
    return secrets.token_urlsafe(24)


class UnknownUsers:
    """Credentials in place of those that do not exist: always the same salt for a user, which cannot be predicted.

    The brokers of a cluster derive the same salts, from a credential that all of them know: that of the first user in
    alphabetical order. Without users the salts are random for each process.
    """

    def __init__(self) -> None:
        self._random_key = secrets.token_bytes(32)
        self._users: ScramCredentials = {}
        self._first: str | None = None
        """First user in alphabetical order; None without users."""
        self._key = self._random_key

    def credential(self, mechanism: ScramMechanism, user: str, users: ScramCredentials) -> ScramCredential:
        """Return a credential that no password has."""
        if users is not self._users:
            self._users, self._first = users, self._first_of(users)
            self._key = self._shared_key(users)
        salt = salt_of(hmac.digest(self._key, f"{mechanism.sasl_name},{user}".encode(), "sha256"))
        size = hashlib.new(mechanism.digest).digest_size
        return ScramCredential(salt=salt, stored_key=bytes(size), server_key=bytes(size), iterations=ITERATIONS_MIN)

    def _first_of(self, users: ScramCredentials) -> str | None:
        """Return the first of the users. The cost depends on the changes, unless they remove the first one."""
        first = self._first
        if first is None or first not in users:
            return min(users, default=None)
        return min([first, *(user for user in iter_changed_keys(self._users, users) if user in users)])

    def _shared_key(self, users: ScramCredentials) -> bytes:
        keys: Mapping[int, ScramCredential] = users[self._first] if self._first is not None else {}
        return next((keys[number].server_key for number in sorted(keys)), self._random_key)


class ScramServer:
    """Server side of one exchange."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        users: Callable[[], Users],
        unknown_users: UnknownUsers,
        tokens: TokenLogins,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """`users` returns the current users, `tokens` derives the credentials of delegation tokens."""
        self._mechanism = mechanism
        self._users = users
        self._unknown_users = unknown_users
        self._tokens = tokens
        self._new_nonce = nonce
        self._credential: ScramCredential | None = None
        self._header = self._client_first = self._server_first = self._nonce = ""
        self._rejection = ""
        """Reason for which the proof will be rejected, whatever it is."""
        self._token_id = ""
        """Id of the delegation token that the client logs in with; empty without one."""
        self.user = ""
        self.is_complete = False
        self.lifetime_ms: float | None = None
        self.token_authenticated = False
        self.preparation: Callable[[], Awaitable[None]] | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Return the server's first or final message. Raises AuthenticationError."""
        assert self.preparation is None, "the preparation comes before the next token"
        if len(token) > MESSAGE_BYTES_MAX:
            raise AuthenticationError("a message is too long")
        return (self._first if self._credential is None else self._final)(_text(token)).encode()

    def _first(self, message: str) -> str:
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise AuthenticationError("the client's first message is malformed")
        self.user = plain_name(found["user"])
        check_authorization_id(plain_name(found["authorization_id"] or ""), self.user)
        is_token = _TOKEN_EXTENSION.search(found["extensions"]) is not None
        self._credential = self._find_token() if is_token else self._find()
        self._header, self._client_first = found["header"], found["bare"]
        self._nonce = found["nonce"] + self._new_nonce()
        salt = _base64(self._credential.salt)
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first

    def _find(self) -> ScramCredential:
        """Return the user's credential, or one that no proof fits."""
        users = self._users().scram
        other = self._unknown_users.credential(self._mechanism, self.user, users)
        credential = users.get(self.user, {}).get(self._mechanism)
        if credential is None:
            self._rejection = "the user has no credential"
            return other
        if credential.iterations < ITERATIONS_MIN:
            self._rejection = f"the credential has fewer than {ITERATIONS_MIN} iterations"
            return other
        return credential

    def _find_token(self) -> ScramCredential:
        """Return the token's credential, or one with the same salt that no proof fits."""
        users, token_id = self._users(), self.user
        other = self._unknown_users.credential(self._mechanism, token_id, users.scram)
        self._token_id = token_id
        self._rejection = self._tokens.rejection(users.delegation_tokens.get(token_id))
        if self._rejection:
            return other
        derived = self._tokens.derived(self._mechanism, token_id, other.salt)
        if derived is None:
            self.preparation = self._derive
        return derived or other

    async def _derive(self) -> None:
        assert self._credential is not None
        self._credential = await self._tokens.derive(self._mechanism, self._token_id, self._credential.salt)
        self.preparation = None

    def _final(self, message: str) -> str:
        credential = self._credential
        assert credential is not None
        found = _CLIENT_FINAL.fullmatch(message)
        if self.is_complete or found is None:
            raise AuthenticationError("the client's final message is malformed")
        digest = self._mechanism.digest
        signed = f"{self._client_first},{self._server_first},{found['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, signed, digest)
        proof = _bytes(found["proof"])
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        fits = (
            hmac.compare_digest(found["nonce"], self._nonce),
            hmac.compare_digest(found["binding"], _base64(self._header.encode())),
            hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key),
            len(proof) == len(signature),
        )
        if self._rejection or not all(fits):
            raise AuthenticationError(self._rejection or _REASONS[fits.index(False)])
        if self._token_id:
            self._admit_owner()
        self.is_complete = True
        return f"v={_base64(hmac.digest(credential.server_key, signed, digest))}"

    def _admit_owner(self) -> None:
        """Let the client act as the owner of its token until the token expires. Raises AuthenticationError."""
        token = self._users().delegation_tokens.get(self._token_id)
        if reason := self._tokens.rejection(token):  # it was removed, or has expired, since the first message
            raise AuthenticationError(reason)
        assert token is not None, "its lack is a rejection"
        self.user = token.owner.partition(":")[2]
        self.lifetime_ms = self._tokens.lifetime_ms(token)
        self.token_authenticated = True


_REASONS: Final = ("the nonce is wrong", "the channel binding is wrong", "the proof is wrong", "the proof is too long")


class ScramClient:
    """Client side of one exchange. `finish` derives keys for some milliseconds: it runs outside the event loop."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_sasl_name(user)},r={nonce}"
        self._server_signature = b""

    def begin(self) -> bytes:
        """Return the client's first message."""
        return f"n,,{self._bare}".encode()

    def finish(self, server_first: bytes) -> bytes:
        """Return the client's final message. Raises AuthenticationError if the server's is not acceptable."""
        text = _text(server_first)
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationError("the server's first message is malformed")
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise AuthenticationError("the server has changed the nonce")
        iterations = int(found["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationError(
                f"the server requests {iterations} iterations; accepted are {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        digest = self._mechanism.digest
        salted = salt_password(self._mechanism, self._password, salt=_bytes(found["salt"]), iterations=iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        without_proof = f"c=biws,r={found['nonce']}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={_base64(proof)}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise AuthenticationError unless the server has proven that it knows the user's credential."""
        found = _SERVER_FINAL.fullmatch(_text(server_final))
        if found is None or not self._server_signature:
            raise AuthenticationError("the server's final message is malformed")
        if not hmac.compare_digest(_bytes(found["signature"]), self._server_signature):
            raise AuthenticationError("the server's signature is wrong")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("a message is not UTF-8") from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationError("a message is not base64") from None


def _sasl_name(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def plain_name(name: str) -> str:
    """Return a name without the escapes of SASL messages."""
    return name.replace("=2C", ",").replace("=3D", "=")
