"""Delegation tokens: each rule of their requests and of logins with them, with raw frames (KIP-48, KIP-373)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.cluster.controller.plans.delegation_tokens import RENEWERS_CHARACTERS_MAX, RENEWERS_MAX
from kwire.cluster.metadata.delegation_tokens import TokenSettings, token_hmac
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.seams import SystemClock
from kwire.server.apis.security.token_requests import check_allowed
from kwire.server.node.authorizers import STANDARD
from kwire.server.requests.context import ForwardedClient
from kwire.server.settings.security_protocols import SecurityProtocol
from tests.security.canary import forms, found_in_logs, log_everything
from tests.server.security import acl_requests
from tests.server.security.acl_requests import entry
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import alter, log_in, send, upsertion
from tests.server.security.token_clients import KEY, TokenClient, create, describe, expire, log_in_by_token, renew
from tests.support.certificates import Authority, pem_settings
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode
REJECTED = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
DAY_MS = 86_400_000
USERS = 'user_admin="x" user_alice="y" user_bob="z" user_carol="c"'
JAAS = "listener.name.sasl.plain.sasl.jaas.config"
PASSWORDS = {"admin": "x", "alice": "y", "bob": "z", "carol": "c"}
SECURED = settings_of() | {
    JAAS: f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};",
    "authorizer.class.name": STANDARD,
    "super.users": "User:admin",
}
TOKENS = SECURED | {"delegation.token.secret.key": KEY}


class MovedClock:
    """Clock of this machine, which a test moves forward."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.wall_offset_ms = 0
        self.monotonic_offset_ms = 0

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.wall_offset_ms

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms() + self.monotonic_offset_ms


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), TOKENS) as running:
        yield running


@pytest.fixture
def moved(tmp_path: Path, clock: MovedClock) -> Iterator[RunningBroker]:
    """Return a broker whose clock a test moves."""
    with RunningBroker(tmp_path, TOKENS, clock=clock) as running:
        yield running


def client_of(broker: RunningBroker, user: str) -> RawClient:
    client = broker.client()
    assert log_in(client, "PLAIN", user, PASSWORDS[user]) == ""
    return client


@pytest.fixture
def alice(broker: RunningBroker) -> Iterator[RawClient]:
    with client_of(broker, "alice") as client:
        yield client


@pytest.fixture
def bob(broker: RunningBroker) -> Iterator[RawClient]:
    with client_of(broker, "bob") as client:
        yield client


# --- from which connections


@pytest.mark.parametrize(
    ("protocol", "principal", "is_allowed"),
    [
        (SecurityProtocol.PLAINTEXT, "User:ANONYMOUS", False),
        (SecurityProtocol.PLAINTEXT, "User:alice", False),
        (SecurityProtocol.SSL, "User:ANONYMOUS", False),
        (SecurityProtocol.SSL, "User:CN=alice", True),
        (SecurityProtocol.SASL_PLAINTEXT, "User:alice", True),
        (SecurityProtocol.SASL_SSL, "User:ANONYMOUS", True),
    ],
)
def test_requests_need_a_client_that_has_proven_its_name(
    protocol: SecurityProtocol, principal: str, is_allowed: bool
) -> None:
    config = SimpleNamespace(security_protocols={"L": protocol})
    for by_token in (False, True):
        client = SimpleNamespace(principal=principal, token_authenticated=by_token)
        context = SimpleNamespace(connection=client, listener_name="L", services=SimpleNamespace(config=config))
        assert allows(context) == (is_allowed and not by_token)
        forwarded = ForwardedClient(peer_host="", peer_port=0, principal=principal, token_authenticated=by_token)
        context.connection = forwarded
        assert allows(context) == (not by_token)


def allows(context: Any) -> bool:
    try:
        check_allowed(cast("Any", context))
    except KafkaError as error:
        assert error.code is E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return False
    return True


def test_a_client_certificate_is_proof_enough(tmp_path: Path) -> None:
    authority = Authority()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "delegation.token.secret.key": KEY,
        **pem_settings(authority.issue(), authority, ssl_client_auth="requested"),
    }
    identity = authority.issue("alice")
    with RunningBroker(tmp_path / "data", settings) as broker:
        with broker.client(tls=authority.client()) as anonymous:
            assert create(anonymous).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert describe(anonymous).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        with broker.client(tls=authority.client(identity, tmp_path)) as client:
            token = create(client)
            assert (token.error_code, token.principal_name) == (E.NONE, "CN=alice")
            assert [each.token_id for each in describe(client).tokens] == [token.token_id]
            assert renew(client, token.hmac)[0] == E.NONE


def test_row_21_a_session_with_a_token_handles_no_tokens(broker: RunningBroker, alice: RawClient) -> None:
    token = create(alice)
    with broker.client() as client:
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
        refused = E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        created = create(client)
        assert (created.error_code, created.principal_name, created.hmac) == (refused, "alice", b"")
        assert renew(client, token.hmac) == (refused, -1)
        assert expire(client, token.hmac) == (refused, -1)
        assert (describe(client).error_code, describe(client).tokens) == (refused, [])


def test_without_a_secret_key_there_are_no_tokens(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SECURED) as broker, client_of(broker, "alice") as client:
        created = create(client)
        assert (created.error_code, created.issue_timestamp_ms) == (E.DELEGATION_TOKEN_AUTH_DISABLED, 0)
        assert renew(client, b"x") == (E.DELEGATION_TOKEN_AUTH_DISABLED, 0)
        assert expire(client, b"x") == (E.DELEGATION_TOKEN_AUTH_DISABLED, 0)
        assert describe(client).error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
        with broker.client() as other:
            answer = log_in_by_token(other, "id", token_hmac(KEY.encode(), "id"))
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED


# --- create


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created_and_described_in_each_version(
    broker: RunningBroker, alice: RawClient, version: int
) -> None:
    created = create(alice, renewers=(("User", "bob"), ("User", "carol")), version=version)
    assert (created.error_code, created.principal_type, created.principal_name) == (E.NONE, "User", "alice")
    assert created.expiry_timestamp_ms == created.issue_timestamp_ms + DAY_MS
    assert created.max_timestamp_ms == created.issue_timestamp_ms + 7 * DAY_MS
    assert created.hmac == token_hmac(KEY.encode(), created.token_id)
    found = {each.token_id: each for each in describe(alice, version=version).tokens}[created.token_id]
    assert (found.hmac, found.principal_name) == (created.hmac, "alice")
    assert (found.issue_timestamp, found.expiry_timestamp, found.max_timestamp) == (
        created.issue_timestamp_ms,
        created.expiry_timestamp_ms,
        created.max_timestamp_ms,
    )
    assert [(each.principal_type, each.principal_name) for each in found.renewers] == [
        ("User", "bob"),
        ("User", "carol"),
    ]
    if version == 3:
        assert created.token_requester_principal_name == found.token_requester_principal_name == "alice"


def test_a_shorter_lifetime_bounds_the_expiry_as_well(alice: RawClient) -> None:
    short, long = create(alice, lifetime_ms=1000), create(alice, lifetime_ms=2**63 - 1)
    assert short.max_timestamp_ms == short.expiry_timestamp_ms == short.issue_timestamp_ms + 1000
    assert long.max_timestamp_ms == long.issue_timestamp_ms + 7 * DAY_MS


def test_row_21_a_token_for_another_owner_needs_create_tokens(
    broker: RunningBroker, alice: RawClient, bob: RawClient
) -> None:
    for_bob = ("User", "bob")
    refused = create(alice, owner=for_bob)
    assert (refused.error_code, refused.principal_name, refused.hmac) == (
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "bob",
        b"",
    )
    assert create(alice, owner=("User", "alice")).error_code == E.NONE
    assert create(alice, owner=("User", "")).principal_name == "alice"
    right = entry(Operation.CREATE_TOKENS, resource=ResourceType.USER, name="User:bob")
    with client_of(broker, "admin") as admin:
        assert acl_requests.create(admin, right)[0][0] == E.NONE
        token = eventually(lambda: created_or_none(alice, for_bob), "the right to create tokens for bob")
        acl_requests.delete(admin, acl_requests.EVERYTHING)
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    assert renew(alice, token.hmac)[0] == E.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(bob, token.hmac)[0] == E.NONE
    with broker.client() as client:
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
        names = broker.call(lambda: [each.principal for each in broker.server._listeners.table.connections])
        assert names.count("User:bob") == 2


def created_or_none(client: RawClient, owner: tuple[str, str]) -> Any:
    token = create(client, owner=owner)
    return token if token.error_code == E.NONE else None


@pytest.mark.parametrize("owner", [("Group", "g"), (None, "g")])
def test_owners_and_renewers_are_users(broker: RunningBroker, alice: RawClient, owner: tuple[str, str]) -> None:
    assert create(alice, renewers=(("User", "bob"), ("Group", "g"))).error_code == E.INVALID_PRINCIPAL_TYPE
    with client_of(broker, "admin") as admin:
        assert create(admin, owner=owner).error_code == E.INVALID_PRINCIPAL_TYPE


def test_renewers_are_limited(alice: RawClient) -> None:
    many = tuple(("User", f"r{number}") for number in range(RENEWERS_MAX + 1))
    assert create(alice, renewers=many).error_code == E.POLICY_VIOLATION
    assert create(alice, renewers=many[1:]).error_code == E.NONE
    long = tuple(("User", "x" * 1024) for _ in range(RENEWERS_CHARACTERS_MAX // 1024 + 1))
    assert create(alice, renewers=long).error_code == E.POLICY_VIOLATION
    assert create(alice, renewers=long[1:]).error_code == E.NONE


# --- renew and expire


@pytest.mark.parametrize("version", [1, 2])
def test_owner_and_renewers_renew_and_expire_a_token(broker: RunningBroker, alice: RawClient, version: int) -> None:
    token = create(alice, renewers=(("User", "bob"),))
    with client_of(broker, "bob") as bob, client_of(broker, "carol") as carol:
        assert renew(carol, token.hmac, version=version) == (E.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        assert expire(carol, token.hmac, version=version) == (E.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        code, sooner = renew(bob, token.hmac, 3_600_000, version=version)
        assert code == E.NONE
        assert sooner < token.expiry_timestamp_ms
        code, later = expire(bob, token.hmac, 2**63 - 1, version=version)
        assert (code, later) == (E.NONE, token.max_timestamp_ms)
        code, again = renew(alice, token.hmac, 0, version=version)
        assert token.expiry_timestamp_ms <= again < later
        assert expire(bob, token.hmac, -5, version=version) == (E.NONE, -5)
        assert renew(alice, token.hmac, version=version) == (E.DELEGATION_TOKEN_NOT_FOUND, 0)
        assert expire(alice, token.hmac, version=version) == (E.DELEGATION_TOKEN_NOT_FOUND, 0)


@pytest.mark.parametrize("hmac", [b"", b"x", bytes(64), bytes(100_000)])
def test_row_21_another_hmac_finds_no_token(alice: RawClient, hmac: bytes) -> None:
    create(alice)
    assert renew(alice, hmac)[0] == E.DELEGATION_TOKEN_NOT_FOUND
    assert expire(alice, hmac)[0] == E.DELEGATION_TOKEN_NOT_FOUND


def test_row_21_an_expired_token_is_only_removed(moved: RunningBroker, clock: MovedClock) -> None:
    with client_of(moved, "alice") as alice, client_of(moved, "bob") as bob:
        token = create(alice, lifetime_ms=5000)
        clock.wall_offset_ms += 6000
        assert renew(alice, token.hmac) == (E.DELEGATION_TOKEN_EXPIRED, 0)
        assert renew(bob, token.hmac)[0] == E.DELEGATION_TOKEN_EXPIRED
        assert expire(alice, token.hmac, 5) == (E.DELEGATION_TOKEN_EXPIRED, 0)
        assert expire(bob, token.hmac)[0] == E.DELEGATION_TOKEN_OWNER_MISMATCH
        assert expire(alice, token.hmac) == (E.NONE, -1)
        assert renew(alice, token.hmac)[0] == E.DELEGATION_TOKEN_NOT_FOUND


# --- describe


def test_tokens_are_described_for_those_that_may_see_them(broker: RunningBroker, alice: RawClient) -> None:
    mine, shared = create(alice).token_id, create(alice, renewers=(("User", "bob"),)).token_id
    with client_of(broker, "bob") as bob, client_of(broker, "carol") as carol, client_of(broker, "admin") as admin:
        own = create(bob).token_id
        seen = lambda client, *owners, **more: {each.token_id for each in describe(client, *owners, **more).tokens}  # noqa: E731
        assert {mine, shared} <= seen(alice)
        assert own not in seen(alice)
        assert {shared, own} <= seen(bob)
        assert mine not in seen(bob)
        assert seen(bob, "alice") & {mine, shared, own} == {shared}
        assert seen(bob, "bob") & {mine, shared, own} == {shared, own}
        assert seen(bob, every=False) == set()
        assert not seen(carol) & {mine, shared, own}
        assert {mine, shared, own} <= seen(admin)
        rights = [
            entry(Operation.DESCRIBE, principal="User:carol", resource=ResourceType.DELEGATION_TOKEN, name=mine),
            entry(Operation.DESCRIBE_TOKENS, principal="User:carol", resource=ResourceType.USER, name="User:bob"),
        ]
        acl_requests.create(admin, *rights)
        eventually(lambda: seen(carol) & {mine, shared, own} == {mine, own}, "carol's rights to describe")
        assert seen(carol, "alice") & {mine, shared, own} == {mine}
        acl_requests.delete(admin, acl_requests.EVERYTHING)


# --- logins


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_a_token_as_its_owner(broker: RunningBroker, alice: RawClient, mechanism: str) -> None:
    token = create(alice)
    for _ in range(2):
        with broker.client() as client:
            answer = log_in_by_token(client, token.token_id, token.hmac, mechanism=mechanism)
            assert answer.error_code == E.NONE, answer.error_message
            assert 0 < answer.session_lifetime_ms <= DAY_MS
            assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_row_21_failed_logins_with_tokens_have_one_text(
    moved: RunningBroker, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    with client_of(moved, "alice") as alice:
        token, short, removed = create(alice), create(alice, lifetime_ms=1000), create(alice)
        assert expire(alice, removed.hmac)[0] == E.NONE
        clock.wall_offset_ms += 2000
    secrets = [each.hmac for each in (token, short, removed)]
    attempts = {
        token.token_id: bytes(64),
        short.token_id: short.hmac,
        removed.token_id: removed.hmac,
        "never-created": token_hmac(KEY.encode(), "never-created"),
        "alice": token.hmac,
    }
    for token_id, hmac in attempts.items():
        with moved.client() as client:
            answer = log_in_by_token(client, token_id, hmac)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == REJECTED
    with moved.client() as client:
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
    assert "failed authentication of" in caplog.text
    assert found_in_logs(caplog, (KEY.encode(), *secrets)) == []


def test_a_password_does_not_log_in_a_token_and_a_token_is_no_user(broker: RunningBroker, alice: RawClient) -> None:
    token = create(alice)
    with broker.client() as client:  # without the extension, the id is the name of a user
        assert "invalid credentials" in log_in(client, "SCRAM-SHA-256", token.token_id, token.hmac.hex())


def test_row_21_a_token_that_is_removed_during_a_login_fails_it(broker: RunningBroker, alice: RawClient) -> None:
    token = create(alice)
    with broker.client() as client:
        assert client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
        scram = TokenClient("SCRAM-SHA-256", token.token_id, token.hmac)
        first = send(client, scram.begin())
        assert expire(alice, token.hmac) == (E.NONE, -1)
        assert send(client, scram.finish(first.auth_bytes)).error_code == E.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_row_21_a_session_ends_with_its_token(moved: RunningBroker, clock: MovedClock) -> None:
    with client_of(moved, "alice") as alice, moved.client() as client:
        token = create(alice, lifetime_ms=60_000)
        answer = log_in_by_token(client, token.token_id, token.hmac)
        assert 0 < answer.session_lifetime_ms <= 60_000
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
        clock.monotonic_offset_ms += 59_000
        clock.wall_offset_ms += 59_000
        again = log_in_by_token(client, token.token_id, token.hmac)
        assert 0 < again.session_lifetime_ms <= 1000
        clock.monotonic_offset_ms += 2000
        clock.wall_offset_ms += 2000
        client.send(MetadataRequest(topics=[]), 12)
        assert client.is_closed()


def test_row_21_an_expired_token_ends_the_session_at_the_next_login(moved: RunningBroker, clock: MovedClock) -> None:
    with client_of(moved, "alice") as alice, moved.client() as client:
        token = create(alice, lifetime_ms=60_000)
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
        clock.wall_offset_ms += 61_000
        clock.monotonic_offset_ms += 10_000
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_a_session_by_password_may_go_on_with_a_token_and_back(tmp_path: Path, clock: MovedClock) -> None:
    settings = TOKENS | {"connections.max.reauth.ms": "3600000"}
    with RunningBroker(tmp_path, settings, clock=clock) as broker, broker.client() as client:
        with client_of(broker, "admin") as admin:
            assert alter(admin, [upsertion("alice")]) == {"alice": (0, None)}
        eventually(lambda: log_in_once(broker) == "", "the user")
        assert log_in(client, "SCRAM-SHA-256", "alice", "secret") == ""
        token = create(client)
        clock.monotonic_offset_ms += 2000
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
        assert describe(client).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        clock.monotonic_offset_ms += 2000
        assert log_in(client, "SCRAM-SHA-256", "alice", "secret") == ""
        assert len(describe(client).tokens) == 1


def log_in_once(broker: RunningBroker) -> str:
    with broker.client() as client:
        return log_in(client, "SCRAM-SHA-256", "alice", "secret")


# --- what is stored


def test_row_50_no_file_has_the_hmac_of_a_token_and_a_restart_keeps_the_token(tmp_path: Path) -> None:
    settings = TOKENS | {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    with RunningBroker(tmp_path, settings) as broker, client_of(broker, "alice") as alice:
        tokens = [create(alice, renewers=(("User", "bob"),)) for _ in range(20)]
        assert expire(alice, tokens.pop().hmac)[0] == E.NONE
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for token in tokens:
        assert token.token_id.encode() in stored
        assert not [form for form in forms(token.hmac) if form in stored]
    assert KEY.encode() not in stored
    with RunningBroker(tmp_path, settings) as broker, client_of(broker, "bob") as bob, broker.client() as client:
        assert {each.token_id for each in describe(bob).tokens} == {token.token_id for token in tokens}
        assert renew(bob, tokens[0].hmac)[0] == E.NONE
        assert log_in_by_token(client, tokens[0].token_id, tokens[0].hmac).error_code == E.NONE


def test_expired_tokens_are_removed(tmp_path: Path, clock: MovedClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kwire.cluster.controller")
    settings = TOKENS | {"delegation.token.expiry.check.interval.ms": "20"}
    with RunningBroker(tmp_path, settings, clock=clock) as broker, client_of(broker, "alice") as alice:
        kept = create(alice).token_id
        short = create(alice, lifetime_ms=1000)
        assert len(describe(alice).tokens) == 2
        clock.wall_offset_ms += 2000
        eventually(lambda: len(describe(alice).tokens) == 1, "the removal")
        assert [each.token_id for each in describe(alice).tokens] == [kept]
        assert renew(alice, short.hmac)[0] == E.DELEGATION_TOKEN_NOT_FOUND
    assert "removed 1 expired delegation tokens" in caplog.text


def test_row_52_no_log_line_has_the_secret_of_a_token(
    broker: RunningBroker, alice: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    token = create(alice, renewers=(("User", "bob"),))
    assert renew(alice, token.hmac)[0] == E.NONE
    assert describe(alice).tokens
    with broker.client() as client:
        assert log_in_by_token(client, token.token_id, token.hmac).error_code == E.NONE
    with client_of(broker, "carol") as carol:
        assert expire(carol, token.hmac)[0] == E.DELEGATION_TOKEN_OWNER_MISMATCH
        carol.send_bytes(carol.frame(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=1), 2)[:-4])
    assert expire(alice, token.hmac) == (E.NONE, -1)
    assert "successful authentication of 'alice'" in caplog.text
    assert found_in_logs(caplog, (KEY.encode(), token.hmac)) == []


def test_row_52_the_secrets_of_tokens_are_in_no_repr(broker: RunningBroker, alice: RawClient) -> None:
    token = create(alice)
    described = describe(alice)
    texts = repr(token) + repr(described) + repr(broker.server.services.settings.of(TokenSettings))
    for form in forms(token.hmac):
        assert form not in texts.encode()
    assert KEY not in texts
