"""Credentials of delegation tokens: derived outside the event loop, once, and only for tokens that exist."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from kwire.cluster.metadata.delegation_tokens import TokenSettings, token_hmac
from kwire.cluster.metadata.scram import ScramMechanism, make_credential, salt_password
from kwire.protocol.messages.metadata_records import DelegationTokenRecord
from kwire.server.security.sasl import token_logins
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.scram import ScramServer, UnknownUsers
from kwire.server.security.sasl.token_logins import TokenLogins
from tests.server.security.token_clients import KEY, TokenClient

T = TypeVar("T")
SHA_256, SHA_512 = ScramMechanism
NOW = 1000


class CountedWorkers:
    """Workers that count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, call: Callable[[], T]) -> T:
        self.calls += 1
        await asyncio.sleep(0)
        return call()

    def close(self) -> None:
        """Nothing to wait for."""


def record(token_id: str = "t", **fields: Any) -> DelegationTokenRecord:
    given: dict[str, Any] = {"owner": "User:alice", "max_timestamp": 9000, "expiration_timestamp": 5000} | fields
    return DelegationTokenRecord(token_id=token_id, **given)


def logins(workers: CountedWorkers, key: str | None = KEY, now: int = NOW) -> TokenLogins:
    settings = TokenSettings(secret_key=key, lifetime_ms_max=1, renewal_ms=1, check_interval_ms=1)
    return TokenLogins(settings, workers, lambda: now)


def test_row_21_credentials_are_derived_once_in_a_worker() -> None:
    workers = CountedWorkers()
    known = logins(workers)

    async def log_in() -> None:
        assert known.derived(SHA_256, "t", b"salt") is None
        found = await asyncio.gather(*(known.derive(SHA_256, "t", b"salt") for _ in range(20)))
        assert workers.calls == 1
        password = base64.b64encode(token_hmac(KEY.encode(), "t")).decode()
        salted = salt_password(SHA_256, password, salt=b"salt", iterations=4096)
        assert found == [make_credential(SHA_256, salted, salt=b"salt", iterations=4096)] * 20
        assert known.derived(SHA_256, "t", b"salt") == found[0]
        await asyncio.gather(known.derive(SHA_512, "t", b"salt"), known.derive(SHA_256, "u", b"salt"))
        assert workers.calls == 3
        assert known.derived(SHA_256, "t", b"other") is None
        await known.derive(SHA_256, "t", b"other")
        assert workers.calls == 4

    asyncio.run(log_in())


def test_few_credentials_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_logins, "CREDENTIALS_MAX", 2)
    known = logins(CountedWorkers())
    for token_id in "abac":
        asyncio.run(known.derive(SHA_256, token_id, b"salt"))
    assert [known.derived(SHA_256, each, b"salt") is not None for each in "abc"] == [True, False, True]


@pytest.mark.parametrize(
    ("token", "key", "reason"),
    [
        (record(), None, "delegation tokens are not enabled"),
        (record(), "", "delegation tokens are not enabled"),
        (None, KEY, "there is no such delegation token"),
        (record(expiration_timestamp=NOW - 1), KEY, "the delegation token has expired"),
        (record(max_timestamp=NOW - 1), KEY, "the delegation token has expired"),
        (record(owner="Group:alice"), KEY, "the owner of the delegation token is no user"),
        (record(expiration_timestamp=NOW), KEY, ""),
    ],
)
def test_row_21_tokens_that_are_not_accepted(token: DelegationTokenRecord | None, key: str | None, reason: str) -> None:
    workers = CountedWorkers()
    known = logins(workers, key)
    assert known.rejection(token) == reason
    image = cast("Any", SimpleNamespace(scram={}, delegation_tokens={} if token is None else {"t": token}))
    scram = ScramServer(SHA_256, lambda: image, UnknownUsers(), known)
    client = TokenClient("SCRAM-SHA-256", "t", token_hmac(KEY.encode(), "t"))
    first = scram.evaluate(client.begin())
    assert (scram.preparation is None) == bool(reason)
    if scram.preparation is not None:
        asyncio.run(scram.preparation())  # type: ignore[arg-type]
        client.verify(scram.evaluate(client.finish(first)))
        assert (scram.user, scram.token_authenticated, scram.lifetime_ms) == ("alice", True, 1.0)
        return
    with pytest.raises(AuthenticationError) as error:
        scram.evaluate(client.finish(first))
    assert (error.value.reason, error.value.told) == (reason, "")
    assert workers.calls == 0


def test_row_07_a_token_and_an_unknown_id_have_the_same_first_message() -> None:
    image = cast("Any", SimpleNamespace(scram={}, delegation_tokens={"t": record()}))
    others = cast("Any", SimpleNamespace(scram={}, delegation_tokens={}))
    unknown = UnknownUsers()
    known = logins(CountedWorkers())
    firsts = [
        ScramServer(SHA_256, lambda users=users: users, unknown, known, lambda: "s").evaluate(  # type: ignore[misc]
            b"n,,n=t,r=c,tokenauth=true"
        )
        for users in (image, others)
    ]
    assert firsts[0] == firsts[1]


def test_the_lifetime_of_a_session_ends_with_the_token() -> None:
    known = logins(CountedWorkers())
    assert known.lifetime_ms(record()) == 4000
    assert known.lifetime_ms(record(max_timestamp=2000)) == 1000
