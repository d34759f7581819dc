"""Standard authorizer: decides by super users, then by the access control entries in the metadata log (KIP-801).

An entry that denies has precedence over every entry that allows. If no entry matches the client and the operation, the
answer is no; with allow.everyone.if.no.acl.found it is yes, but only if no entry at all applies to the resource.
Decisions are kept until an entry changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kwire.cluster.configs.settings import setting
from kwire.cluster.security.acl_index import AclIndex
from kwire.cluster.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from kwire.cluster.security.authorizer import ANY_NAME, Authorizer, NotReadyError, Question

DECISIONS_MAX: Final = 20_000
"""Decisions that are kept; above it all are dropped. Clients choose names, so that the number must have a limit."""

KEPT_NAME_CHARACTERS_MAX: Final = 256
"""Longest resource name whose decisions are kept. A request may name thousands of 32 KB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """Settings of the standard authorizer."""

    super_users: str = setting("super.users")
    """Principals separated by semicolons, such as User:admin;User:broker."""
    allows_without_acl: bool = setting("allow.everyone.if.no.acl.found")


class StandardAuthorizer(Authorizer):
    """Authorizer of one node, kept equal to the committed metadata."""

    def __init__(self, settings: AuthorizerSettings) -> None:
        self.super_users = frozenset(filter(None, (each.strip() for each in settings.super_users.split(";"))))
        self._allows_without_acl = settings.allows_without_acl
        self._index = AclIndex()
        self.known: dict[Question, bool] = {}
        self._decisions_any: dict[tuple[str, str, Operation, ResourceType], bool] = {}
        self._is_ready = False

    # --- entries

    def ready(self) -> None:
        """Decide from now on: the entries are those that the cluster has committed."""
        self._is_ready = True

    def change(self, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        """Replace entries that have been committed."""
        for acl in removed:
            self._index.remove(acl)
        for acl in added:
            self._index.add(acl)
        self.known.clear()
        self._decisions_any.clear()

    # --- decisions

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        question = principal, host, operation, resource, name
        known = self.known.get(question)
        if known is not None:
            return known
        if principal in self.super_users:
            is_allowed = True
        elif not self._is_ready:
            raise NotReadyError("the access control entries have not been read yet")
        else:
            is_allowed = self._is_allowed(*question)
        if len(name) <= KEPT_NAME_CHARACTERS_MAX:
            if len(self.known) >= DECISIONS_MAX:
                self.known.clear()
            self.known[question] = is_allowed
        return is_allowed

    def _is_allowed(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        decisive, has_entries = self._decisive(principal, host, operation, resource, name)
        if decisive is not None:
            return decisive.permission == Permission.ALLOW
        return self._allows_without_acl and not has_entries

    def _decisive(
        self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str
    ) -> tuple[Acl | None, bool]:
        """Return the entry that decides, if there is one, and whether any entry applies to the resource."""
        allowing: Acl | None = None
        has_entries = False
        for acl in self._index.of_resource(resource, name):
            has_entries = True
            if acl.matches_client(principal, host) and acl.matches_operation(operation):
                if acl.permission == Permission.DENY:
                    return acl, True
                if acl.permission == Permission.ALLOW:
                    allowing = acl
        return allowing, has_entries

    def allows_any(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return True if the principal may perform the operation on some resource of the type (KIP-679).

        As in Kafka, only entries that name the operation itself, or all operations, count.
        """
        question = principal, host, operation, resource
        known = self._decisions_any.get(question)
        if known is None:
            known = self.allows(*question, ANY_NAME) or self._has_allowed_name(*question)
            if len(self._decisions_any) >= DECISIONS_MAX:
                self._decisions_any.clear()
            self._decisions_any[question] = known
        return known

    def _has_allowed_name(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return True if an entry allows a name, or a prefix of names, that no other entry denies as a whole."""
        patterns: dict[int, set[tuple[int, str]]] = {Permission.ALLOW: set(), Permission.DENY: set()}
        for acl in self._index.of_principal(resource, principal):
            if acl.host in (host, WILDCARD) and acl.operation in (operation, Operation.ALL):
                patterns.setdefault(acl.permission, set()).add((acl.pattern_type, acl.resource_name))
        allowed, denied = patterns[Permission.ALLOW], patterns[Permission.DENY]
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if (PatternType.LITERAL, WILDCARD) in allowed:
            return True
        return any(pattern not in denied and not _has_denied_prefix(pattern[1], denied) for pattern in allowed)

    def reason(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> str:
        """Return the rule in the words of Kafka's audit log."""
        if principal in self.super_users:
            return "SuperUser"
        decisive, has_entries = self._decisive(principal, host, operation, resource, name)
        if decisive is not None:
            return f"MatchingAcl({decisive})"
        return "DefaultAllow" if self._allows_without_acl and not has_entries else "DefaultDeny"


def _has_denied_prefix(name: str, denied: set[tuple[int, str]]) -> bool:
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
