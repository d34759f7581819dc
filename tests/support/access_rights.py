"""Access control entries about one user and one topic, which come and go in long runs."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.cluster.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tests.server.security.acl_requests import entry

USER = "alice"
GUARDED = "guarded"
"""Topic that the user writes to."""
ENTRIES = (
    entry(Operation.WRITE, name=GUARDED),
    entry(Operation.ALL, name=GUARDED[:3], pattern=PatternType.PREFIXED),
    entry(Operation.WRITE, name="*", principal="User:*"),
    entry(Operation.WRITE, name=GUARDED, permission=Permission.DENY),
    entry(Operation.ALL, name=GUARDED[:4], pattern=PatternType.PREFIXED, permission=Permission.DENY),
)
"""Entries that allow or deny the user to write to the topic."""
ABOUT_TOPICS = AclFilter(ResourceType.TOPIC, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
"""Filter that all of them match."""


def is_allowed(entries: Iterable[Acl]) -> bool:
    """Return whether the user may write to the topic. All entries of ENTRIES apply to it, and a denial wins."""
    permissions = {each.permission for each in entries}
    return Permission.ALLOW in permissions and Permission.DENY not in permissions
