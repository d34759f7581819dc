"""The state of a connection that authenticates: every order of requests, and a model of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.server.security.sasl.authenticator import (
    VERSIONS,
    Answer,
    Authenticator,
    Failure,
    SessionExpiredError,
)
from tests.server.security.sasl.frames import (
    ALL,
    RIGHT,
    WRONG,
    Clock,
    Sasl,
    framed,
    handshake,
    handshake_answer,
    scram_client,
    settings_of,
    token,
    token_answer,
    versions,
)
from tests.support.raw_client import decoded

LIFETIME_MS = 60_000
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


def authenticator(clock: Clock | None = None, **others: str) -> Authenticator:
    return Authenticator(Sasl(settings_of(**others)).listener(), clock or Clock())


def logged_in(clock: Clock, *, lifetime_ms: int = LIFETIME_MS, mechanism: str = "PLAIN") -> Authenticator:
    begun = authenticator(clock, connections_max_reauth_ms=str(lifetime_ms))
    log_in(begun, mechanism)
    return begun


def log_in(begun: Authenticator, mechanism: str = "PLAIN", user: str = "alice") -> None:
    shaken = handshake_answer(answer(begun.receive(handshake(mechanism))).buffers)
    assert (shaken.error_code, shaken.mechanisms) == (0, list(ALL))
    assert not begun.is_complete
    tokens = [b"\0" + user.encode() + (b"\0y" if user == "alice" else b"\0x")]
    if mechanism != "PLAIN":
        client = scram_client(user, mechanism=ALL.index(mechanism))
        first = begun.receive(token(client.begin()))
        assert isinstance(first, Answer)
        tokens = [client.finish(token_answer(first.buffers).auth_bytes)]
    begun.receive(token(tokens[0]))


def failure(step: object) -> Failure:
    assert isinstance(step, Failure)
    return step


def answer(step: object) -> Answer:
    assert isinstance(step, Answer)
    return step


# --- the states in order


@pytest.mark.parametrize("with_versions", [True, False])
@pytest.mark.parametrize("mechanism", ALL)
def test_a_login_by_requests(mechanism: str, with_versions: bool) -> None:
    begun = authenticator()
    if with_versions:
        assert begun.receive(versions()) is VERSIONS
        begun.versions_answered()
    log_in(begun, mechanism)
    assert begun.is_complete
    assert begun.user == "alice"
    assert begun.passes(framed(MetadataRequest(), 12))
    assert begun.passes(handshake())


def sent(begun: Authenticator, frame: bytes) -> bytes:
    """Return the only part of the answer to a frame."""
    buffers = answer(begun.receive(frame)).buffers
    assert buffers is not None
    (part,) = buffers
    return bytes(part)


@pytest.mark.parametrize("mechanism", ALL)
def test_a_login_by_bare_tokens(mechanism: str) -> None:
    begun = authenticator()
    answer(begun.receive(handshake(mechanism, version=0)))
    if mechanism == "PLAIN":
        assert answer(begun.receive(RIGHT)).buffers == [bytes(4)]
    else:
        client = scram_client(mechanism=ALL.index(mechanism))
        first = sent(begun, client.begin())
        assert int.from_bytes(first[:4], "big") == len(first) - 4
        client.verify(sent(begun, client.finish(first[4:]))[4:])
    assert begun.is_complete


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_sasl_authenticate(version: int) -> None:
    begun = authenticator(connections_max_reauth_ms="5000")
    begun.receive(handshake())
    response = token_answer(answer(begun.receive(token(RIGHT, version))).buffers, version)
    assert (response.error_code, response.auth_bytes) == (0, b"")
    assert response.session_lifetime_ms == (5000 if version else 0)


# --- each wrong order


@pytest.mark.parametrize("request_frame", [framed(MetadataRequest(), 12), framed(ProduceRequest(), 9), token(RIGHT)])
@pytest.mark.parametrize("after_versions", [True, False])
def test_row_03_no_other_request_comes_first(request_frame: bytes, after_versions: bool) -> None:
    begun = authenticator()
    if after_versions:
        begun.receive(versions())
        begun.versions_answered()
    assert failure(begun.receive(request_frame)).buffers is None
    assert begun.has_failed


def test_row_03_the_body_of_another_request_is_not_read() -> None:
    frame = framed(MetadataRequest(), 12)[:-1] + b"\xff" * 20
    assert "API 3" in failure(authenticator().receive(frame)).reason


@pytest.mark.parametrize(
    ("request_", "version"), [(ListGroupsRequest(), 4), (MetadataRequest(), 13), (MetadataRequest(), 9)]
)
def test_row_04_another_request_during_the_tokens(request_: object, version: int) -> None:
    begun = authenticator()
    begun.receive(handshake())
    frame = framed(request_, version)
    ended = failure(begun.receive(frame))
    if isinstance(request_, MetadataRequest) and version < 13:
        assert ended.buffers is None, "its response has no error code of its own"
    else:
        assert ended.buffers is not None
        response = decoded(b"".join(ended.buffers)[4:], request_, version)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_row_04_a_handshake_during_the_tokens() -> None:
    begun = authenticator()
    begun.receive(handshake())
    buffers = failure(begun.receive(handshake())).buffers
    assert buffers is not None
    assert handshake_answer(buffers).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_row_05_a_second_api_versions_request() -> None:
    begun = authenticator()
    assert begun.receive(versions()) is VERSIONS
    assert begun.receive(versions()) is VERSIONS, "the first one was answered with an error"
    begun.versions_answered()
    assert failure(begun.receive(versions())).buffers is None


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain", "PLAIN ", "OAUTHBEARER"])
@pytest.mark.parametrize("version", [0, 1])
def test_row_06_an_unknown_mechanism(mechanism: str, version: int) -> None:
    begun = Authenticator(Sasl(settings_of(mechanisms=("PLAIN",))).listener(), Clock())
    ended = failure(begun.receive(handshake(mechanism, version)))
    assert ended.buffers is not None
    response = handshake_answer(ended.buffers, version)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN"]


def test_row_07_wrong_credentials_have_one_text_for_each_mechanism() -> None:
    said: dict[str, set[str]] = {}
    for mechanism, user, password in (
        ("PLAIN", "alice", "n"),
        ("PLAIN", "unknown", "n"),
        ("PLAIN", "", ""),
        ("SCRAM-SHA-256", "alice", "n"),
        ("SCRAM-SHA-256", "unknown", "n"),
        ("SCRAM-SHA-256", "admin", "x"),
        ("SCRAM-SHA-512", "alice", "n"),
        ("SCRAM-SHA-512", "unknown", "n"),
    ):
        begun = authenticator()
        begun.receive(handshake(mechanism))
        content = f"\0{user}\0{password}".encode()
        if mechanism != "PLAIN":
            client = scram_client(user, password, ALL.index(mechanism))
            first = token_answer(answer(begun.receive(token(client.begin()))).buffers)
            content = client.finish(first.auth_bytes)
        response = token_answer(failure(begun.receive(token(content))).buffers)
        assert (response.error_code, response.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
        said.setdefault(mechanism, set()).add(response.error_message)
    assert said == {mechanism: {GENERIC.format(mechanism)} for mechanism in ALL}


def test_row_07_bare_tokens_are_rejected_without_an_answer() -> None:
    begun = authenticator()
    begun.receive(handshake(version=0))
    assert failure(begun.receive(WRONG)).buffers is None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x60\x82\x02\x6e" * 20,
        framed(MetadataRequest(), 12)[:9],
        b"\x7f\xff" + bytes(20),
        handshake(version=1).replace(b"\0\x11\0\1", b"\0\x11\0\2"),
        handshake()[:-3],
    ],
)
def test_row_10_what_cannot_be_read_ends_the_connection(frame: bytes) -> None:
    assert failure(authenticator().receive(frame)).buffers is None
    begun = authenticator()
    begun.receive(handshake())
    failure(begun.receive(frame))


def test_row_10_an_unknown_version_of_sasl_authenticate() -> None:
    begun = authenticator()
    begun.receive(handshake())
    assert failure(begun.receive(token(RIGHT).replace(b"\0\x24\0\2", b"\0\x24\0\3"))).buffers is None


def test_a_long_api_versions_request_is_not_decoded() -> None:
    assert "bytes" in failure(authenticator().receive(versions() + bytes(10_000))).reason


# --- sessions


def test_row_20_a_session_expires() -> None:
    clock = Clock()
    begun = logged_in(clock)
    clock.ms = LIFETIME_MS
    assert begun.passes(framed(MetadataRequest(), 12))
    clock.ms += 1
    assert begun.passes(versions())
    assert not begun.passes(handshake())
    for frame in (framed(MetadataRequest(), 12), token(RIGHT), b""):
        with pytest.raises(SessionExpiredError):
            begun.passes(frame)


@pytest.mark.parametrize("mechanism", ALL)
def test_row_20_a_client_authenticates_again(mechanism: str) -> None:
    clock = Clock()
    begun = logged_in(clock, mechanism=mechanism)
    for _ in range(3):
        clock.ms += LIFETIME_MS + 5
        assert not begun.passes(handshake(mechanism))
        log_in(begun, mechanism)
        assert begun.is_complete
        assert begun.passes(framed(MetadataRequest(), 12))


def test_row_20_not_twice_in_a_second() -> None:
    clock = Clock()
    begun = logged_in(clock)
    clock.ms = 5000
    assert not begun.passes(handshake())
    log_in(begun)
    clock.ms = 5999
    assert begun.passes(handshake()), "the handler answers ILLEGAL_SASL_STATE"
    clock.ms = 6000
    assert not begun.passes(handshake())


def test_row_20_no_other_request_while_a_client_authenticates_again() -> None:
    clock = Clock()
    begun = logged_in(clock)
    answer(begun.receive(handshake()))
    frame = framed(MetadataRequest(), 12)
    assert not begun.passes(frame)
    failure(begun.receive(frame))


def test_row_20_another_mechanism_or_user_is_rejected() -> None:
    begun = logged_in(Clock())
    answer(begun.receive(handshake("SCRAM-SHA-256")))
    response = token_answer(failure(begun.receive(token(scram_client().begin()))).buffers)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "mechanism" in response.error_message

    begun = logged_in(Clock())
    answer(begun.receive(handshake()))
    response = token_answer(failure(begun.receive(token(b"\0admin\0x"))).buffers)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.admin"
    assert begun.user == "alice"


def test_row_20_wrong_credentials_in_a_reauthentication() -> None:
    begun = logged_in(Clock())
    answer(begun.receive(handshake()))
    response = token_answer(failure(begun.receive(token(WRONG))).buffers)
    assert response.error_message == GENERIC.format("PLAIN").replace("during a", "during re-a")


# --- a model


class AuthenticationModel(RuleBasedStateMachine):
    """Any order of requests at any time, against a model in few words: what is allowed next, and until when."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.real = authenticator(self.clock, connections_max_reauth_ms=str(LIFETIME_MS))
        self.expected = "begin"
        """begin, handshake, tokens, bare tokens, complete, or failed."""
        self.expires_at = 0.0
        self.began_again_at = -1e9
        self.again = False

    def is_ended(self) -> bool:
        return self.expected == "failed"

    def send(self, frame: bytes) -> object:
        """Return the step of a frame; "passes" or "expired" for those that do not come to it."""
        try:
            return "passes" if self.real.passes(frame) else self.real.receive(frame)
        except SessionExpiredError:
            self.expected = "failed"
            return "expired"

    def check_failed(self, step: object) -> None:
        assert isinstance(step, Failure)
        assert self.real.has_failed
        self.expected = "failed"

    def of_session(self, step: object) -> None:
        """Check a step of an ordinary request of a complete session."""
        assert step == ("expired" if self.clock.ms > self.expires_at else "passes")

    @rule(seconds=st.sampled_from([0.1, 1, 20, 70]))
    def wait(self, seconds: float) -> None:
        self.clock.ms += seconds * 1000

    @precondition(lambda self: not self.is_ended())
    @rule(is_valid=st.booleans())
    def ask_versions(self, is_valid: bool) -> None:
        step = self.send(versions())
        if self.expected == "complete":
            assert step == "passes"
        elif self.expected == "begin":
            assert step is VERSIONS
            if is_valid:
                self.real.versions_answered()
                self.expected = "handshake"
        else:
            self.check_failed(step)

    @precondition(lambda self: not self.is_ended())
    @rule(mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI"]), version=st.sampled_from([0, 1]))
    def shake_hands(self, mechanism: str, version: int) -> None:
        step = self.send(handshake(mechanism, version))
        if self.expected == "complete":
            if self.clock.ms - self.began_again_at < 1000:
                self.of_session(step)
                return
            self.began_again_at = self.clock.ms
            self.again = True
        elif self.expected not in ("begin", "handshake"):
            self.check_failed(step)
            return
        if mechanism == "GSSAPI":
            self.check_failed(step)
        else:
            assert isinstance(step, Answer)
            self.expected = "tokens" if version else "bare tokens"
            self.mechanism = mechanism

    @precondition(lambda self: not self.is_ended())
    @rule(user=st.sampled_from(["alice", "admin"]), is_right=st.booleans(), in_request=st.booleans())
    def send_token(self, user: str, is_right: bool, in_request: bool) -> None:
        password = {"alice": "y", "admin": "x"}[user] if is_right else "wrong"
        content = f"\0{user}\0{password}".encode()
        step = self.send(token(content) if in_request else content)
        if self.expected == "complete":
            self.of_session(step)
        elif (self.expected == "tokens" and in_request) or (self.expected == "bare tokens" and not in_request):
            if self.mechanism == "PLAIN" and is_right and (not self.again or user == self.real.user):
                assert isinstance(step, Answer)
                assert self.real.is_complete
                assert self.real.user == user
                self.expected = "complete"
                self.expires_at = self.clock.ms + LIFETIME_MS
            else:
                self.check_failed(step)
        elif step != "expired":
            self.check_failed(step)

    @precondition(lambda self: not self.is_ended())
    @rule(frame=st.one_of(st.just(framed(MetadataRequest(), 12)), st.binary(max_size=40)))
    def send_another(self, frame: bytes) -> None:
        step = self.send(frame)
        if self.expected == "complete":
            self.of_session(step)
        elif step != "expired":
            self.check_failed(step)


TestAuthenticationModel = AuthenticationModel.TestCase
TestAuthenticationModel.settings = settings(max_examples=200, stateful_step_count=20, deadline=None)
