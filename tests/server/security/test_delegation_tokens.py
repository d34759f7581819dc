"""Delegation tokens: each rule of their requests and of logins with them, with raw frames (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.protocol.error_codes import ErrorCode
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import log_in
from tests.server.security.token_clients import KEY, create, describe, log_in_by_token
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker

E = ErrorCode
TOKENS = settings_of() | {"delegation.token.secret.key": KEY}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), TOKENS) as running:
        yield running


@pytest.fixture
def alice(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as client:
        assert log_in(client, "PLAIN", "alice", "y") == ""
        yield client


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_a_token_as_its_owner(broker: RunningBroker, alice: RawClient, mechanism: str) -> None:
    token = create(alice)
    assert token.error_code == E.NONE
    for _ in range(2):
        with broker.client() as client:
            answer = log_in_by_token(client, token.token_id, token.hmac, mechanism=mechanism)
            assert answer.error_code == E.NONE, answer.error_message
            assert 0 < answer.session_lifetime_ms <= 86_400_000
            assert describe(client).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
