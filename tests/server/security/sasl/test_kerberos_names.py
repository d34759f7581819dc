"""Rules from Kerberos principals to user names, as Apache Kafka 4.3.1 applies them."""

from __future__ import annotations

import re
import time

import pytest

from kwire.server.security.sasl.kerberos_names import UserNames
from kwire.server.settings.setting_rules import RuleBrokenError

REALM = "EXAMPLE.COM"
APP = ("RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT")
MAPPED: list[tuple[tuple[str, ...], str, str | None]] = [
    (("DEFAULT",), "alice@EXAMPLE.COM", "alice"),
    (("DEFAULT",), "kafka/broker.example.com@EXAMPLE.COM", "kafka"),
    (("DEFAULT",), "alice@OTHER.COM", None),
    ((), "alice@EXAMPLE.COM", None),
    (APP, "App.service-name/example.com@EXAMPLE.COM", "service-name"),
    (APP, "App.service-name@EXAMPLE.COM", "service-name"),
    (APP, "user/host@EXAMPLE.COM", "user"),
    # Kafka's documentation: user@MYDOMAIN.COM is translated to user, and the default rule stays in effect.
    (("RULE:[1:$1@$0](.*@MYDOMAIN.COM)s/@.*//", "DEFAULT"), "user@MYDOMAIN.COM", "user"),
    (("RULE:[1:$1@$0](.*@MYDOMAIN.COM)s/@.*//", "DEFAULT"), "user@EXAMPLE.COM", "user"),
    (("RULE:[1:$1@$0](.*@MYDOMAIN.COM)s/@.*//", "DEFAULT"), "user@THIRD.COM", None),
    (("RULE:[2:$1;$2](^.*;admin$)s/;admin$//",), "alice/admin@ANY.COM", "alice"),
    (("RULE:[2:$1-$2]",), "alice/admin@ANY.COM", "alice-admin"),
    (("RULE:[1:$1]",), "alice/admin@ANY.COM", None),
    (("RULE:[3:$1]",), "alice/admin@ANY.COM", None),
    (("RULE:[1:$1]/L",), "Alice@ANY.COM", "alice"),
    (("RULE:[1:$1]/U",), "Alice@ANY.COM", "ALICE"),
    (("RULE:[1:$1]L",), "Alice@ANY.COM", "alice"),
    (("RULE:[1:$1](Al.*)s/l/L/g/L",), "Alil@ANY.COM", "alil"),
    (("RULE:[1:$1]s/a/x/",), "banana@ANY.COM", "bxnana"),
    (("RULE:[1:$1]s/a/x/g",), "banana@ANY.COM", "bxnxnx"),
    (("RULE:[1:$1]s/$/-s/g",), "ban@ANY.COM", "ban-s"),
    (("RULE:[1:$1]s/x*/-/g",), "axb@ANY.COM", "-a--b-"),
    (("RULE:[1:$1]s/(b)(a)?/$2\\$$1/",), "ban@ANY.COM", "a$bn"),
    (("RULE:[1:$1]s/(b)(x)?/$2$1/",), "ban@ANY.COM", "ban"),
    # A match is of the whole name, and the first rule that applies decides, also if its result is no user name.
    (("RULE:[1:x$1](xal)", "DEFAULT"), "alice@EXAMPLE.COM", "alice"),
    (("RULE:[1:$1@$0]", "DEFAULT"), "alice@EXAMPLE.COM", None),
    (("RULE:[1:$1]s/.*//", "DEFAULT"), "alice@EXAMPLE.COM", None),
    # Names that are not a first component, at most a second one, and a realm.
    (("DEFAULT", "RULE:[1:$1]"), "alice", None),
    (("DEFAULT", "RULE:[1:$1]"), "a/b/c@EXAMPLE.COM", None),
    (("DEFAULT", "RULE:[1:$1]"), "@EXAMPLE.COM", None),
    (("DEFAULT", "RULE:[1:$1]"), "alice\\@EXAMPLE.COM@OTHER.COM", None),
    (("DEFAULT", "RULE:[1:$1]"), "alice\\/admin@EXAMPLE.COM", None),
]


@pytest.mark.parametrize(("rules", "principal", "user"), MAPPED)
def test_principals_are_mapped(rules: tuple[str, ...], principal: str, user: str | None) -> None:
    assert UserNames(rules).user_of(principal, REALM) == user


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("default", "'default' is not a rule"),
        ("RULE:[1:$1]x", "'RULE:[1:$1]x' is not a rule"),
        ("RULE:[:$1]", "'RULE:[:$1]' is not a rule"),
        ("RULE:[1:$1](a)s/a/b", "'RULE:[1:$1](a)s/a/b' is not a rule"),
        ("RULE:[1:$2]", "'RULE:[1:$2]' has $2; use $0 to $1"),
        ("RULE:[1:$a]", "'RULE:[1:$a]' has $; use $0 to $1"),
        ("RULE:[1:$1]([)", "'RULE:[1:$1]([)' has a pattern that RE2 does not accept"),
        ("RULE:[1:$1]s/(?=a)/b/", "'RULE:[1:$1]s/(?=a)/b/' has a pattern that RE2 does not accept"),
        ("RULE:[1:$1]s/a/$1/", "'RULE:[1:$1]s/a/$1/' has $1, and its pattern has 0 groups"),
        ("RULE:[1:$1]s/a/$/", "'RULE:[1:$1]s/a/$/' has a $ or \\ with nothing after it"),
        ("RULE:[1:$1]s/a/\\/", "'RULE:[1:$1]s/a/\\\\/' has a $ or \\ with nothing after it"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(rule: str, why: str) -> None:
    with pytest.raises(RuleBrokenError, match=f"^{re.escape(f'sasl.kerberos.principal.to.local.rules: {why}')}$"):
        UserNames([rule])


def test_row_47_a_pattern_is_matched_in_linear_time() -> None:
    names = UserNames(["RULE:[1:$1]s/^(a+)+x$/b/"])
    began = time.process_time()
    assert names.user_of("a" * 4096 + "@EXAMPLE.COM", REALM) == "a" * 4096
    assert time.process_time() - began < 1
