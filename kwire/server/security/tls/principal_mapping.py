"""Rules that map the subject of a client's certificate to a principal name: ssl.principal.mapping.rules (KIP-371).

A rule is DEFAULT, the name as it is, or RULE:pattern/replacement/ with L (lower case) or U (upper case) at its end. The
first rule whose pattern matches the whole name decides. A name that no rule matches is refused.

The rules are the operator's, the name is of an authority that the operator trusts; nothing else is ever a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kwire.server.security.tls.tls_settings import TlsRejected

KEY: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
NAME_CHARACTERS_MAX: Final = 4096
"""Longest name: the time of a pattern may grow with its square."""
_PARTS: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"RULE:{_PARTS}/{_PARTS}/([LU]?)", re.DOTALL)
_GROUP: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


class NoRuleMatchesError(Exception):
    """No rule matches a name: its client is refused."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal name; None if the pattern does not match the whole name."""
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(self._replaced, name)
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found

    def _replaced(self, match: re.Match[str]) -> str:
        return _GROUP.sub(lambda reference: _referenced(reference, match), self.replacement)


def _referenced(reference: re.Match[str], match: re.Match[str]) -> str:
    """Return what a part of a replacement stands for: an escaped character, or a group of the name."""
    character, digits, group_name = reference.groups()
    if character is not None:
        return character
    if group_name is not None:
        return match[group_name] or ""
    # As in Java, $12 is group 1 and a 2 if there are fewer than 12 groups. Kafka keeps $3 as text without a group 3.
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= match.re.groups:
            return (match[int(digits[:end])] or "") + digits[end:]
    return reference[0]


class PrincipalMapper:
    """Rules of one listener, in their order."""

    def __init__(self, text: str) -> None:
        """Read the rules. Raises TlsRejected."""
        self._rules: list[Callable[[str], str | None]] = []
        for rule in _split(text):
            self._rules.append(_compiled(rule) if rule != DEFAULT else str)

    def name_of(self, subject: str) -> str:
        """Return the principal name for a subject in the form of RFC 2253. Raises NoRuleMatchesError."""
        if len(subject) <= NAME_CHARACTERS_MAX:
            for rule in self._rules:
                name = rule(subject)
                if name is not None:
                    return name
        raise NoRuleMatchesError


def _split(text: str) -> list[str]:
    """Return the rules of a list; a comma in a pattern does not end it. Raises TlsRejected."""
    rules = []
    position = 0
    while position < len(text):
        if text[position] in ", \t\n\r\f":
            position += 1
            continue
        found = _RULE.match(text, position)
        end = found.end() if found is not None else position + len(DEFAULT)
        rule = text[position:end]
        if (found is None and rule != DEFAULT) or text[end:].lstrip()[:1] not in ("", ","):
            raise TlsRejected(KEY, f"{text[position:].partition(',')[0]!r} is not a rule")
        rules.append(rule)
        position = end
    return rules


def _compiled(rule: str) -> Callable[[str], str | None]:
    found = _RULE.fullmatch(rule)
    assert found is not None, "the rules are split"
    pattern, replacement, case = found.groups()
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)  # as Java: named groups, \d and \w
    except (re.error, OverflowError) as error:
        raise TlsRejected(KEY, f"{pattern!r} is not a pattern: {error}") from None
    unknown = [name for _, _, name in _GROUP.findall(replacement) if name and name not in compiled.groupindex]
    if unknown:
        raise TlsRejected(KEY, f"{replacement!r} names the group {unknown[0]}, which its pattern does not have")
    return _Rule(compiled, replacement, case).apply
