"""Parser for the SCRAM credentials of a new cluster on a command line: MECHANISM=[name=...,password=...].

Example: SCRAM-SHA-256=[name=alice,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=",password=alice-secret].
With `saltedpassword` instead of `password`, the password itself is not disclosed. The rules are those of Kafka's
storage tool:

- White space is significant, and quotes around a value are removed.
- The last value of a repeated key wins, and a password has precedence over a saltedpassword.
- Name and salt may be empty.

The messages are Kafka's too, but never contain typed text. With a comma in a password, or a space in place of a comma,
any text may be part of a secret. A message therefore contains a key or a position instead.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from kwire.cluster.metadata.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_record,
    make_credential,
    salt_of,
    salt_password,
)
from kwire.protocol.messages.metadata_records import UserScramCredentialRecord
from kwire.seams import RandomSource

ITERATIONS = 4096
"""Default number of iterations."""
_MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
_MECHANISM_LIKE = re.compile("SCRAM-SHA-?[0-9]{1,3}(-PLUS)?", re.IGNORECASE)
"""Names that a message may show although they are not supported mechanisms: they cannot be a password."""
_KEYS = ("name", "salt", "iterations", "password", "saltedpassword")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_INTEGER_MAX = 2**31 - 1
_NAME_BYTES_MAX = 2**15 - 1
"""Maximum bytes of a string in a record."""


class InvalidScramError(ValueError):
    """The text is not a valid credential; the message is one line with the reason and contains no secret."""


def parse_scram(arguments: Sequence[str], random_source: RandomSource) -> list[UserScramCredentialRecord]:
    """Return the records of the credentials, in their order. Raises InvalidScramError.

    A missing salt is generated. If a user has several credentials for one mechanism, the last record counts.
    """
    return [_credential(argument, position, random_source) for position, argument in enumerate(arguments, 1)]


def _credential(argument: str, position: int, random_source: RandomSource) -> UserScramCredentialRecord:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise InvalidScramError("An argument of add-scram is not UTF-8") from None
    mechanism, text = _mechanism(argument.strip(), position)
    pairs = [_component(component, number) for number, component in enumerate(_components(text), 1)]
    values = dict(pairs)
    name = values.get("name")
    if name is None:
        raise InvalidScramError("You must supply 'name' to add-scram")
    given_salt = values.get("salt")
    salt = None if given_salt is None else _bytes("salt", given_salt)
    iterations = _integer(values.get("iterations", str(ITERATIONS)))
    password, given_salted = values.get("password"), values.get("saltedpassword")
    salted = _salted_password(password, given_salted, has_salt=salt is not None)
    unknown = [str(number) for number, (key, _) in enumerate(pairs, 1) if key not in _KEYS]
    if unknown:
        raise InvalidScramError(f"Unknown SCRAM configurations: component {', '.join(unknown)}")
    _check(mechanism, name, iterations)
    salt = salt_of(random_source.uuid().bytes + random_source.uuid().bytes) if salt is None else salt
    if password is not None:
        salted = salt_password(mechanism, password, salt=salt, iterations=iterations)
    credential = make_credential(mechanism, salted, salt=salt, iterations=iterations)
    return credential_record(name, mechanism, credential)


def _mechanism(argument: str, position: int) -> tuple[ScramMechanism, str]:
    """Return the mechanism and the text in its brackets."""
    name, equals, text = argument.partition("=")
    if not equals:
        raise InvalidScramError(f"Failed to find equals sign in SCRAM argument {position}")
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        shown = name if _MECHANISM_LIKE.fullmatch(name) else f"of argument {position}"
        raise InvalidScramError(f"The add-scram mechanism {shown} is not supported.")
    if not text.startswith("["):
        raise InvalidScramError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise InvalidScramError("Expected configuration string to end with ]")
    return mechanism, text[1:-1]


def _components(text: str) -> list[str]:
    """Return the parts between commas, without empty ones at the end, as Java's String.split does."""
    stripped = text.rstrip(",")
    return stripped.split(",") if stripped or not text else []


def _component(component: str, position: int) -> tuple[str, str]:
    name, equals, value = component.partition("=")
    if not equals:
        raise InvalidScramError(f"No equals sign found in SCRAM component {position}")
    return name, value[1:-1] if re.fullmatch('".*"', value, re.DOTALL) else value


def _bytes(key: str, text: str) -> bytes:
    """Decode base64, with or without padding, as Java does."""
    if _BASE64.fullmatch(text) is None:
        raise InvalidScramError(f"Failed to decode given {key}: it is not base64")
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _integer(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None or not -_INTEGER_MAX - 1 <= int(text) <= _INTEGER_MAX:
        raise InvalidScramError("Failed to parse iterations count: it is not an integer of 32 bits")
    return int(text)


def _salted_password(password: str | None, salted: str | None, *, has_salt: bool) -> bytes:
    """Return the given salted password; b"" if a password is given instead."""
    if password is not None:
        if not password:
            raise InvalidScramError("The 'password' of add-scram must not be empty")
        return b""
    if salted is None:
        raise InvalidScramError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if not has_salt:
        raise InvalidScramError("You must supply 'salt' with 'saltedpassword' to add-scram")
    value = _bytes("saltedPassword", salted)
    if not value:
        raise InvalidScramError("The 'saltedpassword' of add-scram must not be empty")
    return value


def _check(mechanism: ScramMechanism, name: str, iterations: int) -> None:
    if iterations < ITERATIONS_MIN:
        raise InvalidScramError(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism.name}"
        )
    if iterations > ITERATIONS_MAX:
        raise InvalidScramError(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {mechanism.name}"
        )
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise InvalidScramError(f"The 'name' value must have at most {_NAME_BYTES_MAX} bytes for add-scram")
