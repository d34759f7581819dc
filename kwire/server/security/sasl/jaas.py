"""Parser of sasl.jaas.config: one login module with its options, in the syntax of Java's login configurations.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a" user_admin="a";

The syntax is the one that Apache Kafka accepts: quotes ' or " with Java's escapes, words without quotes that do not
begin with a digit, comments of C and C++. A message contains the position of an error. It contains no text of the
configuration, because with a forgotten quote any word may be part of a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_PREFIX: Final = "org.apache.kafka.common.security."
PLAIN_MODULE: Final = _PREFIX + "plain.PlainLoginModule"
SCRAM_MODULE: Final = _PREFIX + "scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = _PREFIX + "oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""
      (?P<space> [\0-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\n\r]* )
    | (?P<word> [A-Za-z_$\u00a0-\U0010ffff] [A-Za-z0-9_$.\-\u00a0-\U0010ffff]* )
    | (?P<quoted> "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' )
    | (?P<mark> [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not one login module; the message is one line without any text of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """Login module of one SASL mechanism. The options contain passwords and are in no repr."""

    name: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    kind: str
    """word, quoted, mark, or end."""
    text: str
    position: int
    """Position of the first character, from 1."""


def parse_jaas(text: str) -> LoginModule:
    """Return the login module of a configuration, which must have exactly one. Raises JaasError."""
    tokens = _tokens(text)
    modules = []
    for token in tokens:
        if token.kind == "end":
            break
        modules.append(_module(token, tokens))
    if not modules:
        raise JaasError("JAAS config property does not contain any login modules")
    if len(modules) > 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            what = "this quote has no end in its line" if text[position] in "\"'" else "this character needs quotes"
            raise JaasError(f"{what}, at character {position + 1}")
        kind = found.lastgroup
        assert kind is not None
        if kind == "quoted":
            yield _Token(kind, _ESCAPE.sub(_unescape, found[0][1:-1]), position + 1)
        elif kind != "space":
            yield _Token(kind, found[0], position + 1)
        position = found.end()
    while True:
        yield _Token("end", "", len(text) + 1)


def _unescape(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)


def _module(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    name = _text(first, "the name of a login module")
    flag = next(tokens)
    if _text(flag, f"a control flag, one of {', '.join(_FLAGS)},").lower() not in _FLAGS:
        raise JaasError(f"invalid login module control flag, at character {flag.position}; use {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for token in tokens:
        if token == ("mark", ";", token.position):
            break
        if token.kind == "end":
            raise JaasError("JAAS config entry not terminated by semi-colon")
        key = _text(token, "a key")
        equals = next(tokens)
        if equals.text != "=" or equals.kind != "mark":
            raise JaasError(f"value not specified for the key at character {token.position}")
        options[key] = _text(next(tokens), "a value")
    return LoginModule(name=name, options=options)


def _text(token: _Token, what: str) -> str:
    if token.kind not in ("word", "quoted"):
        where = "at the end" if token.kind == "end" else f"at character {token.position}"
        raise JaasError(f"{what} is missing {where}")
    return token.text
