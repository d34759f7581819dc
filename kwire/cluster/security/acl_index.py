"""Index of access control entries: those that apply to one resource, at a cost that does not depend on their number.

Literal entries are found by the resource's name. Prefixed entries are found by the beginnings of the name that have
the length of an entry's prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv6Address

from kwire.cluster.security.acls import EVERYONE, WILDCARD, Acl, PatternType


def _canonical(acl: Acl) -> Acl:
    """Return the entry with its host as connections show it: an IPv6 address may be written in several ways."""
    if ":" not in acl.host:
        return acl
    try:
        return acl._replace(host=str(IPv6Address(acl.host)))
    except ValueError:
        return acl


class _Named:
    """Entries of one resource type and pattern type, by the name in their pattern."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[Acl, None]] = {}
        self.lengths: Counter[int] = Counter()
        """Number of different names of each length."""

    def add(self, acl: Acl) -> None:
        same_name = self.by_name.get(acl.resource_name)
        if same_name is None:
            same_name = self.by_name[acl.resource_name] = {}
            self.lengths[len(acl.resource_name)] += 1
        same_name[acl] = None

    def remove(self, acl: Acl) -> None:
        same_name = self.by_name[acl.resource_name]
        del same_name[acl]
        if not same_name:
            del self.by_name[acl.resource_name]
            length = len(acl.resource_name)
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]


class AclIndex:
    """Index of all entries of a cluster."""

    def __init__(self) -> None:
        self._ids: Counter[Acl] = Counter()
        """Number of ids of each entry: another controller may have stored one twice."""
        self._named: dict[tuple[int, int], _Named] = {}
        """Entries by resource type and pattern type."""
        self._of_principals: dict[tuple[int, str], dict[Acl, None]] = {}
        """Entries by resource type and principal."""

    def add(self, acl: Acl) -> None:
        acl = _canonical(acl)
        self._ids[acl] += 1
        if self._ids[acl] == 1:
            self._named.setdefault((acl.resource_type, acl.pattern_type), _Named()).add(acl)
            self._of_principals.setdefault((acl.resource_type, acl.principal), {})[acl] = None

    def remove(self, acl: Acl) -> None:
        acl = _canonical(acl)
        self._ids[acl] -= 1
        if self._ids[acl]:
            return
        del self._ids[acl]
        self._named[acl.resource_type, acl.pattern_type].remove(acl)
        same_principal = self._of_principals[acl.resource_type, acl.principal]
        del same_principal[acl]
        if not same_principal:
            del self._of_principals[acl.resource_type, acl.principal]

    def of_resource(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the entries whose pattern applies to a resource, each once."""
        literal = self._named.get((resource_type, PatternType.LITERAL))
        if literal is not None:
            yield from literal.by_name.get(name, ())
            if name != WILDCARD:
                yield from literal.by_name.get(WILDCARD, ())
        prefixed = self._named.get((resource_type, PatternType.PREFIXED))
        if prefixed is not None:
            for length in prefixed.lengths:
                if length <= len(name):
                    yield from prefixed.by_name.get(name[:length], ())

    def of_principal(self, resource_type: int, principal: str) -> Iterator[Acl]:
        """Yield the entries of a resource type that name a principal or everyone, each once."""
        yield from self._of_principals.get((resource_type, principal), ())
        if principal != EVERYONE:
            yield from self._of_principals.get((resource_type, EVERYONE), ())
