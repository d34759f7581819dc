"""Delegation tokens of three nodes: requests through any broker, logins at all, the principal in an Envelope."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.harness.ports import free_ports
from kwire.protocol.codec import decode
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kwire.protocol.messages.envelope import EnvelopeRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.server.other_nodes.envelopes import encode_principal
from tests.server.controller_requests import inside
from tests.server.security.sasl.logins import log_in
from tests.server.security.sasl.test_sasl_cluster import NODES, format_node, settings_of
from tests.server.security.token_clients import KEY, create, describe, expire, log_in_by_token, renew
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode


@pytest.fixture
def ports() -> list[int]:
    return free_ports(3)


@pytest.fixture
def brokers(tmp_path: Path, ports: list[int]) -> Iterator[list[RunningBroker]]:
    for node in NODES:
        format_node(node, ports, tmp_path)
    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        starts = [
            pool.submit(
                RunningBroker,
                tmp_path / str(node),
                settings_of(node, ports, tmp_path) | {"delegation.token.secret.key": KEY},
            )
            for node in NODES
        ]
        yield [stack.enter_context(start.result()) for start in starts]


def test_row_21_tokens_of_three_nodes(brokers: list[RunningBroker], ports: list[int]) -> None:
    with ExitStack() as stack:
        admins = [stack.enter_context(broker.client()) for broker in brokers]
        for admin in admins:
            assert log_in(admin, "PLAIN", "admin", "x") == ""
        eventually(lambda: len(admins[0].ask(MetadataRequest(topics=[]), 12).brokers) == 3, "three brokers")
        tokens = [create(admin) for admin in admins]
        assert [token.error_code for token in tokens] == [E.NONE] * 3
        ids = {token.token_id for token in tokens}
        for broker, admin in zip(brokers, admins, strict=True):
            eventually(lambda admin=admin: {each.token_id for each in describe(admin).tokens} == ids, "all tokens")  # type: ignore[misc]
            for token in tokens:
                with broker.client() as client:
                    answer = log_in_by_token(client, token.token_id, token.hmac)
                    assert answer.error_code == E.NONE, answer
                    assert create(client).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        for admin, token in zip(admins, tokens[1:] + tokens[:1], strict=True):
            assert renew(admin, token.hmac)[0] == E.NONE
            assert expire(admin, token.hmac) == (E.NONE, -1)
        eventually(lambda: not any(describe(admin).tokens for admin in admins), "the removal")
        leader = leader_of(brokers)
        for by_token in (True, False):
            code = code_of_forwarded(brokers[leader - 1], ports[leader - 1], by_token=by_token)
            assert code == (E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if by_token else E.NONE)


def leader_of(brokers: list[RunningBroker]) -> int:
    (leader,) = [node for node, broker in zip(NODES, brokers, strict=True) if broker.server.metadata_log.is_active]
    return leader


def code_of_forwarded(broker: RunningBroker, port: int, *, by_token: bool) -> int:
    """Return the code of a request in an Envelope, whose client may have logged in with a token."""
    with RawClient(f"127.0.0.1:{port}") as node:
        assert log_in(node, "SCRAM-SHA-512", "node", "node-secret") == ""
        answer = node.ask(
            EnvelopeRequest(
                request_data=inside(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
                request_principal=encode_principal("User:alice", token_authenticated=by_token),
                client_host_address=bytes([127, 0, 0, 1]),
            ),
            0,
        )
    assert answer.error_code == E.NONE
    response = decode(CreateDelegationTokenResponse, 3, bytes(answer.response_data)[5:])
    return int(response.error_code)
