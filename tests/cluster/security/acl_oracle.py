"""Oracle of the standard authorizer: the documented rules, read from a list of entries one after the other.

It shares no code with kwire/cluster/security but the shape of an entry and the numbers of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from kwire.cluster.security.acls import Acl, Operation, ResourceType

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11

Question = tuple[str, str, Operation, ResourceType, str]

PRINCIPALS = ("User:a", "User:b", "Group:a", "User:*", "User:a:b", "User:")
HOSTS = ("*", "127.0.0.1", "::1", "10.0.0.1")
NAMES = ("*", "a", "ab", "abc", "b", "ba", "a-1", "a.", "A", "hardcode", "é", "ééé", "-", "!")
OPERATIONS = range(2, 16)
RESOURCES = (2, 3, 5)


def applies(acl: Acl, resource: int, name: str) -> bool:
    if acl.resource_type != resource:
        return False
    if acl.pattern_type == LITERAL:
        return acl.resource_name == name or acl.resource_name == "*"
    return acl.pattern_type == PREFIXED and name[: len(acl.resource_name)] == acl.resource_name


def is_allowed(acls: Iterable[Acl], question: Question, *, super_users: Sequence[str], allows_without: bool) -> bool:
    principal, host, operation, resource, name = question
    if principal in super_users:
        return True
    of_resource = [acl for acl in acls if applies(acl, resource, name)]
    if not of_resource:
        return allows_without
    of_client = [
        acl
        for acl in of_resource
        if (acl.principal == principal or acl.principal == "User:*") and (acl.host == host or acl.host == "*")
    ]
    denied = {acl.operation for acl in of_client if acl.permission == DENY}
    if ALL in denied or operation in denied:
        return False
    allowed = {acl.operation for acl in of_client if acl.permission == ALLOW}
    if allowed & {READ, WRITE, DELETE, ALTER}:
        allowed.add(DESCRIBE)
    if ALTER_CONFIGS in allowed:
        allowed.add(DESCRIBE_CONFIGS)
    return ALL in allowed or operation in allowed


def is_any_allowed(
    acls: Sequence[Acl],
    question: tuple[str, str, Operation, ResourceType],
    *,
    super_users: Sequence[str],
    allows_without: bool,
) -> bool:
    """Return the answer for some resource of the type, as KIP-679 defines it.

    A literal entry counts for its name. A prefixed entry counts unless a prefixed entry denies all its names.
    """
    if is_allowed(acls, (*question, "hardcode"), super_users=super_users, allows_without=allows_without):
        return True
    principal, host, operation, resource = question
    mine = [
        acl
        for acl in acls
        if acl.resource_type == resource
        and acl.principal in (principal, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, ALL)
    ]
    denials = [acl for acl in mine if acl.permission == DENY]
    if any(acl.pattern_type == LITERAL and acl.resource_name == "*" for acl in denials):
        return False
    for acl in mine:
        if acl.permission != ALLOW:
            continue
        if acl.pattern_type == LITERAL and acl.resource_name == "*":
            return True
        whole = [each for each in denials if each.pattern_type == PREFIXED]
        is_denied = any(acl.resource_name.startswith(each.resource_name) for each in whole)
        same = [each for each in denials if each.pattern_type == LITERAL and acl.pattern_type == LITERAL]
        if not is_denied and all(each.resource_name != acl.resource_name for each in same):
            return True
    return False


def draw_acl(random: Random) -> Acl:
    return Acl(
        resource_type=random.choice(RESOURCES),
        resource_name=random.choice(NAMES),
        pattern_type=random.choice((LITERAL, LITERAL, PREFIXED)),
        principal=random.choice(PRINCIPALS),
        host=random.choice(HOSTS),
        operation=random.choice(OPERATIONS),
        permission=random.choice((DENY, ALLOW, ALLOW, ALLOW)),
    )


def draw_question(random: Random) -> Question:
    return (
        random.choice(("User:a", "User:b", "Group:a", "User:a:b", "User:c")),
        random.choice(("127.0.0.1", "::1", "10.0.0.1", "10.0.0.2")),
        Operation(random.choice(range(3, 16))),
        ResourceType(random.choice(RESOURCES)),
        random.choice((*NAMES, "abcd", "a-", "zz")),
    )
