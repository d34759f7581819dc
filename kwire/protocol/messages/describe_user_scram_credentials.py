"""DescribeUserScramCredentials: SCRAM mechanisms for which users have credentials, without these (KIP-554)."""

from kwire.protocol.primitives import int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribeUserScramCredentialsUserName:
    name: string = field("0+")


@message(key=50, kind="request", versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[DescribeUserScramCredentialsUserName] | None = field("0+", nullable="0+")
    """None and an empty list describe all."""


@struct
class CredentialInfo:
    mechanism: int8 = field("0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int32 = field("0+")


@struct
class DescribeUserScramCredentialsResult:
    user: string = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = field("0+")


@message(key=50, kind="response", versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field("0+")
