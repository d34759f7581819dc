"""Plans for delegation tokens, and the look-up of a token by its HMAC (KIP-48)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.cluster.configs.config_keys import INT64_MAX
from kwire.cluster.controller.plans.delegation_tokens import (
    expired_tokens,
    plan_expiry,
    plan_new_token,
    plan_removals,
    plan_renewal,
)
from kwire.cluster.metadata import delegation_tokens
from kwire.cluster.metadata.delegation_tokens import TokenHmacs, TokenSettings, token_hmac
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord

NOW, RENEWAL, LIFETIME = 1_000_000, 1000, 7000
SETTINGS = TokenSettings(secret_key="k", lifetime_ms_max=LIFETIME, renewal_ms=RENEWAL, check_interval_ms=1)
OWNER, RENEWER, OTHER = "User:alice", "User:bob", "User:carol"
KEY = b"k"


def token(token_id: str = "t", **fields: Any) -> DelegationTokenRecord:
    made = DelegationTokenRecord(
        owner=OWNER,
        requester=OTHER,
        renewers=[RENEWER],
        issue_timestamp=NOW - 10,
        max_timestamp=NOW + 5000,
        expiration_timestamp=NOW + 100,
        token_id=token_id,
    )
    return dataclasses.replace(made, **fields)


def error_of(plan: Callable[..., Any], *asked: Any, **options: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        plan(*asked, **options)
    return error.value.code


@pytest.mark.parametrize(
    ("lifetime_ms", "max_timestamp", "expiration_timestamp"),
    [
        (-1, NOW + LIFETIME, NOW + RENEWAL),
        (0, NOW + LIFETIME, NOW + RENEWAL),
        (5000, NOW + 5000, NOW + RENEWAL),
        (500, NOW + 500, NOW + 500),
        (INT64_MAX, NOW + LIFETIME, NOW + RENEWAL),
    ],
)
def test_a_new_token(lifetime_ms: int, max_timestamp: int, expiration_timestamp: int) -> None:
    made = plan_new_token(
        token_id=UUID(int=5),
        owner=("User", "a:b"),
        requester=OTHER,
        renewers=[("User", "bob")],
        lifetime_ms=lifetime_ms,
        now_ms=NOW,
        settings=SETTINGS,
    )
    assert made == DelegationTokenRecord(
        owner="User:a:b",
        requester=OTHER,
        renewers=[RENEWER],
        issue_timestamp=NOW,
        max_timestamp=max_timestamp,
        expiration_timestamp=expiration_timestamp,
        token_id="AAAAAAAAAAAAAAAAAAAABQ",
    )


def test_settings_without_an_end_do_not_overflow() -> None:
    settings = dataclasses.replace(SETTINGS, lifetime_ms_max=INT64_MAX, renewal_ms=INT64_MAX)
    made = plan_new_token(
        token_id=UUID(int=5),
        owner=("User", "alice"),
        requester=OWNER,
        renewers=[],
        lifetime_ms=-1,
        now_ms=NOW,
        settings=settings,
    )
    assert made.max_timestamp == made.expiration_timestamp == INT64_MAX
    assert plan_renewal(made, OWNER, INT64_MAX, now_ms=NOW, settings=settings).expiration_timestamp == INT64_MAX


@pytest.mark.parametrize("principal", [OWNER, RENEWER])
@pytest.mark.parametrize(
    ("period_ms", "expiration_timestamp"),
    [(-1, NOW + RENEWAL), (0, NOW + RENEWAL), (50, NOW + 50), (INT64_MAX, NOW + RENEWAL)],
)
def test_a_renewal(principal: str, period_ms: int, expiration_timestamp: int) -> None:
    renewed = plan_renewal(token(), principal, period_ms, now_ms=NOW, settings=SETTINGS)
    assert renewed == token(expiration_timestamp=expiration_timestamp)
    late = token(max_timestamp=NOW + 20, expiration_timestamp=NOW + 20)
    assert plan_renewal(late, principal, period_ms, now_ms=NOW, settings=SETTINGS) == late


def test_renewals_that_are_rejected() -> None:
    renew = {"now_ms": NOW, "settings": SETTINGS}
    assert error_of(plan_renewal, token(), OTHER, 1, **renew) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    for late in (token(max_timestamp=NOW - 1), token(expiration_timestamp=NOW - 1)):
        assert error_of(plan_renewal, late, OWNER, 1, **renew) is ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert error_of(plan_renewal, late, OTHER, 1, **renew) is ErrorCode.DELEGATION_TOKEN_EXPIRED


@pytest.mark.parametrize("principal", [OWNER, RENEWER])
def test_an_expiry(principal: str) -> None:
    removal = RemoveDelegationTokenRecord(token_id="t")
    assert plan_expiry(token(), principal, -1, now_ms=NOW) == removal
    assert plan_expiry(token(), principal, 0, now_ms=NOW) == token(expiration_timestamp=NOW)
    assert plan_expiry(token(), principal, 3000, now_ms=NOW) == token(expiration_timestamp=NOW + 3000)
    assert plan_expiry(token(), principal, INT64_MAX, now_ms=NOW) == token(expiration_timestamp=NOW + 5000)
    late = token(expiration_timestamp=NOW - 1)
    assert plan_expiry(late, principal, -1, now_ms=NOW) == removal
    assert error_of(plan_expiry, late, principal, 1, now_ms=NOW) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert error_of(plan_expiry, late, OTHER, -1, now_ms=NOW) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_expired_tokens_are_removed_unless_they_were_renewed_meanwhile() -> None:
    late = [token(str(number), expiration_timestamp=NOW - 1) for number in range(200)]
    image = MetadataImage().apply([*late, token("kept")], offset=1, epoch=1)
    found = at_once(expired_tokens(image, NOW))
    assert found == [each.token_id for each in late]
    changes = [token("0"), RemoveDelegationTokenRecord(token_id="1")]
    newer = image.apply(changes, offset=2, epoch=1)
    assert [each.token_id for each in plan_removals(newer, found, NOW)] == found[2:]


# --- the look-up by HMAC


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids whose HMACs have been computed."""
    ids: list[str] = []

    def counted(key: bytes, token_id: str) -> bytes:
        ids.append(token_id)
        return token_hmac(key, token_id)

    monkeypatch.setattr(delegation_tokens, "token_hmac", counted)
    return ids


def found(hmacs: TokenHmacs, image: MetadataImage, given: bytes) -> str:
    return at_once(hmacs.find(KEY, image.delegation_tokens, given))


def test_row_21_a_look_up_costs_as_much_as_the_changes_since_the_last_one(computed: list[str]) -> None:
    count = 1000
    image = MetadataImage().apply([token(str(number)) for number in range(count)], offset=1, epoch=1)
    hmacs = TokenHmacs()
    for number in (0, 7, count - 1):
        assert found(hmacs, image, token_hmac(KEY, str(number))) == str(number)
    assert len(computed) == count + 3
    computed.clear()
    image = image.apply([token("new"), RemoveDelegationTokenRecord(token_id="7")], offset=2, epoch=1)
    assert found(hmacs, image, token_hmac(KEY, "new")) == "new"
    assert found(hmacs, image, token_hmac(KEY, "7")) == ""
    assert len(computed) == 2 + 2


def test_row_21_an_hmac_of_no_token_finds_none() -> None:
    image = MetadataImage().apply([token()], offset=1, epoch=1)
    hmacs = TokenHmacs()
    right = token_hmac(KEY, "t")
    for given in (b"", right[:-1], right + b"\0", bytes(64), token_hmac(KEY, ""), token_hmac(b"other", "t")):
        assert found(hmacs, image, given) == ""
    assert found(hmacs, image, right) == "t"


def test_a_look_up_in_another_lineage_of_images(computed: list[str]) -> None:
    """A snapshot, or many removals, make a map that shares nothing with the one before."""
    hmacs = TokenHmacs()
    first = MetadataImage().apply([token("a"), token("b")], offset=1, epoch=1)
    assert found(hmacs, first, token_hmac(KEY, "a")) == "a"
    other = MetadataImage().apply([token("b"), token("c")], offset=1, epoch=2)
    assert [found(hmacs, other, token_hmac(KEY, each)) for each in "abc"] == ["", "b", "c"]
