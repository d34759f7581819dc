"""Rules that map a Kerberos principal to a user name: sasl.kerberos.principal.to.local.rules.

A rule is DEFAULT, the first component of a principal of the default realm, or

    RULE:[components:format](pattern)s/from/to/g/L

It applies to principals with this number of components whose `format`, in which $0 is the realm and $1 the first
component, matches the whole pattern. The substitution, its g (every match) and L or U (lower or upper case) are
optional. The first rule that applies decides. A principal that no rule applies to is refused.

Clients may alter the rules, so the patterns are those of RE2, which match in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kwire.server.security.sasl.mechanism import RULES_KEY
from kwire.server.settings.setting_rules import RuleBrokenError

DEFAULT: Final = "DEFAULT"
PATTERN_MEMORY_MAX: Final = 1024 * 1024
"""Most bytes that a compiled pattern may take."""
_RULE: Final = re.compile(
    r"RULE:\[(?P<components>[0-9]{1,9}):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<every>g?))?/?(?P<case>[LU]?)"
)
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@\\]+)(?:/(?P<second>[^/@\\]*))?@(?P<realm>[^/@\\]+)")
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_REFERENCE: Final = re.compile(r"\\(.)|\$([0-9])", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    components: int
    """Number of components of the principals that the rule applies to."""
    format: str
    match: Any
    """Compiled pattern that the formatted name must match; None if it matches every name."""
    pattern: Any
    """Compiled pattern that is replaced; None without a substitution."""
    replacement: str
    every: bool
    """True if every match of the pattern is replaced, not only the first one."""
    case: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """Return the user name; None if the rule does not apply. `parts` are the realm and the components."""
        if len(parts) - 1 != self.components:
            return None
        name = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        return name if self.pattern is None else self._replaced(name)

    def _replaced(self, name: str) -> str:
        result, position, last = "", 0, None
        for found in self.pattern.finditer(name):
            if found.span() == last:  # RE2 finds an empty match at the end twice
                break
            last = found.span()
            result += name[position : found.start()] + _filled(self.replacement, found)
            position = found.end()
            if not self.every:
                break
        return result + name[position:]

    def in_case(self, name: str) -> str:
        """Return a name in the case that the rule demands."""
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name


def _filled(replacement: str, found: Any) -> str:
    """Return a replacement with the groups of a match in place of $1 and so on; a backslash escapes a character."""
    return _REFERENCE.sub(
        lambda each: each[1] if each[2] is None else found.group(int(each[2])) or "",
        replacement,
    )


class UserNames:
    """Rules of one listener, in their order."""

    def __init__(self, rules: Sequence[str]) -> None:
        """Read the rules. Raises RuleBrokenError."""
        self._rules = [None if rule == DEFAULT else _parsed(rule) for rule in rules]

    def user_of(self, principal: str, default_realm: str) -> str | None:
        """Return the user name of a principal; None if it is refused."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            return None
        realm, first, second = found["realm"], found["first"], found["second"]
        parts = (realm, first) if second is None else (realm, first, second)
        for rule in self._rules:
            if rule is None:
                name = first if realm == default_realm else None
            else:
                name = rule.apply(parts)
            if name is not None:
                is_user = name != "" and "/" not in name and "@" not in name
                return (name if rule is None else rule.in_case(name)) if is_user else None
        return None


def _parsed(rule: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise RuleBrokenError(f"{RULES_KEY}: {rule!r} is not a rule")
    components = int(found["components"])
    for number in _PARAMETER.findall(found["format"]):
        if not number or int(number) > components:
            raise RuleBrokenError(f"{RULES_KEY}: {rule!r} has ${number}; use $0 to ${components}")
    pattern, replacement = _compiled(rule, found["pattern"]), found["replacement"] or ""
    for _, number in _REFERENCE.findall(replacement):
        if number and int(number) > pattern.groups:
            raise RuleBrokenError(f"{RULES_KEY}: {rule!r} has ${number}, and its pattern has {pattern.groups} groups")
    if "$" in _REFERENCE.sub("", replacement) or _REFERENCE.sub("", replacement).endswith("\\"):
        raise RuleBrokenError(f"{RULES_KEY}: {rule!r} has a $ or \\ with nothing after it")
    return _Rule(
        components=components,
        format=found["format"],
        match=_compiled(rule, found["match"]),
        pattern=pattern,
        replacement=replacement,
        every=found["every"] == "g",
        case=found["case"],
    )


def _compiled(rule: str, pattern: str | None) -> Any:
    """Return a compiled pattern; None without one. Raises RuleBrokenError."""
    if pattern is None:
        return None
    import re2  # noqa: PLC0415 most brokers never need it, and it takes 10 ms to import

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise RuleBrokenError(f"{RULES_KEY}: {rule!r} has a pattern that RE2 does not accept") from None
