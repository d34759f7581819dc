"""SCRAM credentials: the stored form of a password, against which a user is authenticated (RFC 5802, KIP-554).

Neither the password nor the salted password is stored: a reader of the metadata log cannot log in with its contents.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kwire.protocol.messages.metadata_records import UserScramCredentialRecord

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Limits of the iterations for both mechanisms, as in Kafka."""


class ScramMechanism(IntEnum):
    """SCRAM mechanisms by their numbers in records and requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """Name of the hash function in hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """Stored credential of a user for one mechanism.

    Salt and keys are not in the repr, and thus in no log line. Only a reader of the metadata log sees them, for example
    with `kwire log dump`.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


_SALT_BITS = 130
_SALT_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

ScramCredentials = Mapping[str, Mapping[int, ScramCredential]]
"""Credentials by user and by the number of the mechanism."""


def salt_of(seed: bytes) -> bytes:
    """Return the salt that follows from random bytes, in the form of Kafka's tools: a number in base 36.

    With one form for all salts, the salt of an unknown user does not reveal that it is unknown.
    """
    number = int.from_bytes(hashlib.sha256(seed).digest(), "big") % (1 << _SALT_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits = _SALT_DIGITS[digit] + digits
    return digits.encode()


def salt_password(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword. As in Kafka, the password is not normalised first."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def make_credential(
    mechanism: ScramMechanism, salted_password: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.digest),
        iterations=iterations,
    )


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record of a credential in the metadata log."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
