"""Authorizer: decides whether a client may perform an operation on a resource.

`StandardAuthorizer` decides by the access control entries in the metadata log. A program may bring its own authorizer:
a class, or a function of the node's settings, that is named by an entry point of the group `kwire.authorizers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from kwire.cluster.security.acls import Operation, ResourceType

ANY_NAME: Final = "hardcode"
"""Resource name for which an authorizer without entries is asked about a whole resource type; Kafka has the same."""


Question = tuple[str, str, Operation, ResourceType, str]
"""Tuple (principal, host, operation, resource type, resource name)."""


class NotReadyError(Exception):
    """The authorizer cannot decide yet: the node has not read the access control entries."""


class Authorizer(ABC):
    """Decisions of one node. Principals are written as in ACLs, such as User:alice; hosts are IP addresses."""

    allows_everything: ClassVar[bool] = False
    """True if every answer is yes, so that the hot path does not ask."""
    known: Mapping[Question, bool] = MappingProxyType({})
    """Decisions that hold now, which the hot path looks up before it calls `allows`; empty if none are kept."""

    @abstractmethod
    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return True if the principal may perform the operation on this one resource.

        Called on the event loop for nearly every request: it must not block. Raises NotReadyError.
        """

    def allows_any(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return True if the principal may perform the operation on some resource of the type (KIP-679)."""
        return self.allows(principal, host, operation, resource, ANY_NAME)

    def reason(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> str:
        """Return the rule that a decision follows, for the audit log."""
        return type(self).__name__


class AllowEverything(Authorizer):
    """Authorizer of a node whose setting authorizer.class.name is empty."""

    allows_everything = True

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return True
