"""SCRAM credentials: what is kept of a password so that its owner can be known again (RFC 5802, KIP-554).

Neither the password nor what it is salted to is kept: who reads the metadata log cannot log in with what is there.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kwire.protocol.messages.metadata_records import UserScramCredentialRecord

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Of both mechanisms, as Kafka has them."""


class ScramMechanism(IntEnum):
    """The mechanisms by their numbers in records and requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """As hashlib calls it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a user is known by with one mechanism.

    Salt and keys are in no repr, hence in no log; only who reads the metadata log, as `kwire log dump` does, sees them.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


ScramCredentials = Mapping[str, Mapping[int, ScramCredential]]
"""By user, and then by the number of the mechanism."""


def salt_password(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword. As in Kafka the password is not brought into a normal form first."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def make_credential(
    mechanism: ScramMechanism, salted_password: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a password that was salted so."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.digest),
        iterations=iterations,
    )


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    """As the metadata log has it."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
