"""AlterUserScramCredentials: set and remove SCRAM credentials of users (KIP-554).

The client salts and hashes the password; the broker never receives it.
"""

from kwire.protocol.primitives import bytes_, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class ScramCredentialDeletion:
    name: string = field("0+")
    mechanism: int8 = field("0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""


@struct
class ScramCredentialUpsertion:
    name: string = field("0+")
    mechanism: int8 = field("0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int32 = field("0+")
    salt: bytes_ = field("0+", secret=True)
    salted_password: bytes_ = field("0+", secret=True)


@message(key=51, kind="request", versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field("0+")
    upsertions: list[ScramCredentialUpsertion] = field("0+")


@struct
class AlterUserScramCredentialsResult:
    user: string = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")


@message(key=51, kind="response", versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[AlterUserScramCredentialsResult] = field("0+")
