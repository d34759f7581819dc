"""Standard authorizer: rules of precedence, implied operations, and decisions after changes (rows 23 to 26)."""

from __future__ import annotations

from random import Random

import pytest

from kwire.cluster.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from kwire.cluster.security.authorizer import NotReadyError
from kwire.cluster.security.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from tests.cluster.security.acl_oracle import draw_acl, draw_question, is_allowed, is_any_allowed

Op, R = Operation, ResourceType
HOST = "10.0.0.1"


def authorizer_of(*acls: Acl, super_users: str = "", allows_without: bool = False) -> StandardAuthorizer:
    settings = AuthorizerSettings(super_users=super_users, allows_without_acl=allows_without)
    authorizer = StandardAuthorizer(settings)
    authorizer.change((), acls)
    authorizer.ready()
    return authorizer


def acl(
    operation: Operation = Op.READ,
    *,
    name: str = "t",
    principal: str = "User:a",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    resource: ResourceType = R.TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def may(authorizer: StandardAuthorizer, operation: Operation = Op.READ, name: str = "t", who: str = "User:a") -> bool:
    return authorizer.allows(who, HOST, operation, R.TOPIC, name)


def test_row_23_super_users_come_first_then_denials_then_permissions() -> None:
    deny_all = acl(Op.ALL, name="*", principal="User:*", permission=Permission.DENY)
    authorizer = authorizer_of(deny_all, acl(), super_users="User:root; User:other")
    assert [may(authorizer, who=who) for who in ("User:root", "User:other", "User:a")] == [True, True, False]


@pytest.mark.parametrize("denial", [acl(), acl(name="*"), acl(name="", pattern=PatternType.PREFIXED)], ids=str)
@pytest.mark.parametrize("permission", [acl(), acl(name="*"), acl(name="t", pattern=PatternType.PREFIXED)], ids=str)
def test_row_23_a_denial_wins_over_every_permission(denial: Acl, permission: Acl) -> None:
    assert may(authorizer_of(permission))
    assert not may(authorizer_of(permission, denial._replace(permission=Permission.DENY)))


def test_row_23_without_a_matching_entry_the_answer_is_no() -> None:
    assert not may(authorizer_of())
    assert not may(authorizer_of(acl(principal="User:b")))


def test_row_23_everyone_is_let_in_only_where_no_entry_of_any_kind_applies() -> None:
    authorizer = authorizer_of(
        acl(Op.CREATE, name="p", principal="User:b", pattern=PatternType.PREFIXED),
        acl(name="g", resource=R.GROUP),
        allows_without=True,
    )
    assert may(authorizer, name="t")
    assert may(authorizer, name="g")
    assert not may(authorizer, name="pear")


@pytest.mark.parametrize("operation", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.ALL])
def test_row_24_these_operations_allow_to_describe(operation: Operation) -> None:
    assert may(authorizer_of(acl(operation)), Op.DESCRIBE)
    denied = authorizer_of(acl(Op.ALL), acl(operation, permission=Permission.DENY))
    assert may(denied, Op.DESCRIBE) == (operation not in (Op.DESCRIBE, Op.ALL))


@pytest.mark.parametrize("operation", list(Op)[2:])
def test_row_24_only_these_operations_allow_to_describe_configurations(operation: Operation) -> None:
    expected = operation in (Op.ALL, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS)
    assert may(authorizer_of(acl(operation)), Op.DESCRIBE_CONFIGS) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (acl(principal="User:*"), True),
        (acl(principal="User:A"), False),
        (acl(principal="Group:a"), False),
        (acl(principal="User:a "), False),
        (acl(host=HOST), True),
        (acl(host="10.0.0.2"), False),
        (acl(host="10.0.0.*"), False),
        (acl(name="T"), False),
        (acl(name="t*"), False),
        (acl(name="t", pattern=PatternType.PREFIXED), True),
        (acl(name="tt", pattern=PatternType.PREFIXED), False),
        (acl(name="*", pattern=PatternType.PREFIXED), False),
        (acl(resource=R.GROUP), False),
    ],
    ids=str,
)
def test_row_25_principals_hosts_and_names_are_compared_exactly(entry: Acl, expected: bool) -> None:
    assert may(authorizer_of(entry)) == expected


def test_row_26_nobody_but_super_users_gets_in_before_the_entries_are_known() -> None:
    authorizer = StandardAuthorizer(AuthorizerSettings(super_users="User:root", allows_without_acl=True))
    assert may(authorizer, who="User:root")
    with pytest.raises(NotReadyError):
        may(authorizer)
    with pytest.raises(NotReadyError):
        authorizer.allows_any("User:a", HOST, Op.WRITE, R.TOPIC)
    authorizer.ready()
    assert may(authorizer)


def test_a_decision_follows_each_change_of_the_entries() -> None:
    authorizer = authorizer_of()
    for _ in range(2):
        assert not may(authorizer)
        authorizer.change((), [acl()])
        assert may(authorizer)
        authorizer.change([acl()], ())
    assert not authorizer._index._named[R.TOPIC, PatternType.LITERAL].by_name


def test_an_entry_with_two_ids_lasts_until_both_are_removed() -> None:
    authorizer = authorizer_of(acl(), acl())
    authorizer.change([acl()], ())
    assert may(authorizer)
    authorizer.change([acl()], ())
    assert not may(authorizer)


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cluster.security.standard_authorizer.DECISIONS_MAX", 10)
    authorizer = authorizer_of(acl(name="*"))
    for number in range(100):
        assert may(authorizer, name=f"t{number}")
        authorizer.allows_any(f"User:{number}", HOST, Op.READ, R.TOPIC)
        assert len(authorizer.known) <= 10
        assert len(authorizer._decisions_any) <= 10


def test_decisions_about_long_names_are_not_kept() -> None:
    authorizer = authorizer_of(acl(name="x", pattern=PatternType.PREFIXED))
    for number in range(10):
        assert may(authorizer, name=f"x{number}" + "y" * 32_000)
        assert not may(authorizer, name=f"{number}" + "y" * 32_000)
    assert authorizer.known == {}


def play(seed: int, *, steps: int, questions: int) -> None:
    """Change the entries of an authorizer, and compare its answers with the oracle's after each change."""
    random = Random(seed)
    super_users = random.choice(((), ("User:b",)))
    allows_without = random.random() < 0.3
    authorizer = authorizer_of(super_users=";".join(super_users), allows_without=allows_without)
    acls: list[Acl] = []
    for _ in range(steps):
        removed = [acls.pop(random.randrange(len(acls))) for _ in range(random.randrange(min(len(acls), 3) + 1))]
        added = [draw_acl(random) for _ in range(random.randrange(4))]
        acls += added
        authorizer.change(removed, added)
        for _ in range(questions):
            question = draw_question(random)
            expected = is_allowed(acls, question, super_users=super_users, allows_without=allows_without)
            assert authorizer.allows(*question) == expected, (seed, question, acls)
            reason = authorizer.reason(*question)
            is_allowing = reason in ("SuperUser", "DefaultAllow") or "permission=3" in reason
            assert is_allowing == expected, (seed, question, reason)
        some = draw_question(random)[:4]
        expected = is_any_allowed(acls, some, super_users=super_users, allows_without=allows_without)
        assert authorizer.allows_any(*some) == expected, (seed, some, acls)


def test_row_23_to_25_equal_the_oracle() -> None:
    for seed in range(100):
        play(seed, steps=20, questions=10)


@pytest.mark.long
def test_row_23_to_25_equal_the_oracle_in_a_million_questions() -> None:
    for seed in range(1000, 2000):
        play(seed, steps=50, questions=20)
