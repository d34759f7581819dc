"""SCRAM: the examples of RFC 5802 and RFC 7677, each rule of the server and of the client, and equal work."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.formatting.initial_scram import parse_scram
from kwire.cluster.metadata.persistent_map import MapDraft, PersistentMap
from kwire.cluster.metadata.scram import ScramCredential, ScramMechanism, make_credential, salt_password
from kwire.seams import SystemRandomSource
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.scram import ScramClient, ScramServer, UnknownUsers
from tests.server.security.sasl.frames import token_logins

SHA_1 = cast("ScramMechanism", SimpleNamespace(digest="sha1", sasl_name="SCRAM-SHA-1"))
"""The mechanism of RFC 5802's example; listeners do not serve it."""
SHA_256, SHA_512 = ScramMechanism
PASSWORD = "pencil"
EXAMPLES: dict[str, tuple[Any, str, str, str, str, str]] = {
    "RFC 5802": (
        SHA_1,
        "fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "QSXCR+Q6sek8bf92",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "RFC 7677": (
        SHA_256,
        "rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


def credential(
    mechanism: ScramMechanism = SHA_256, password: str = PASSWORD, *, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    salted = salt_password(mechanism, password, salt=salt, iterations=iterations)
    return make_credential(mechanism, salted, salt=salt, iterations=iterations)


USERS = {"user": {1: credential(), 2: credential(SHA_512)}, "weak": {1: credential(iterations=4095)}}


def server(users: Any = None, mechanism: ScramMechanism = SHA_256, nonce: str = "server") -> ScramServer:
    known = cast("Any", SimpleNamespace(scram=USERS if users is None else users, delegation_tokens={}))
    return ScramServer(mechanism, lambda: known, UnknownUsers(), token_logins(), lambda: nonce)


def finals(first: bytes, *, password: str = PASSWORD, user: str = "user", **changed: str) -> bytes:
    """Return a right final message for the server's first message, with changed attributes c, r or p."""
    client = ScramClient(SHA_256, user, password, "client")
    client.begin()
    fields = dict(each.split("=", 1) for each in client.finish(first).decode().split(","))
    return ",".join(f"{key}={value}" for key, value in {**fields, **changed}.items()).encode()


def rejected(scram: ScramServer, token: bytes) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as error:
        scram.evaluate(token)
    assert not scram.is_complete
    return error.value


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_standards(name: str) -> None:
    mechanism, client_nonce, server_nonce, salt, proof, signature = EXAMPLES[name]
    stored = credential(mechanism, salt=base64.b64decode(salt))
    scram = server({"user": OneForAll(stored)}, mechanism, server_nonce)
    client = ScramClient(mechanism, "user", PASSWORD, client_nonce)
    begun = client.begin()
    assert begun == f"n,,n=user,r={client_nonce}".encode()
    first = scram.evaluate(begun)
    assert first == f"r={client_nonce}{server_nonce},s={salt},i=4096".encode()
    final = client.finish(first)
    assert final == f"c=biws,r={client_nonce}{server_nonce},p={proof}".encode()
    ended = scram.evaluate(final)
    assert ended == f"v={signature}".encode()
    client.verify(ended)
    assert scram.is_complete
    assert scram.user == "user"


class OneForAll(dict[int, ScramCredential]):
    """The same credential of a user for each mechanism, also for one that is not served."""

    def __init__(self, stored: ScramCredential) -> None:
        super().__init__({1: stored})

    def get(self, key: object, default: Any = None) -> Any:
        return self[1]


@given(user=st.text(min_size=1).filter(lambda name: "\0" not in name), password=st.text(), is_right=st.booleans())
def test_any_user_and_password(user: str, password: str, is_right: bool) -> None:
    scram = server({user: {2: credential(SHA_512, password)}}, SHA_512)
    client = ScramClient(SHA_512, user, password if is_right else f"{password}x", "nonce")
    final = client.finish(scram.evaluate(client.begin()))
    if is_right:
        client.verify(scram.evaluate(final))
        assert scram.user == user
    else:
        assert rejected(scram, final).told == ""


@pytest.mark.parametrize("nonce", ["server", "clientserver2", "xclientserver", "client", "clientserve"])
def test_row_13_the_nonce_must_be_equal(nonce: str) -> None:
    scram = server()
    final = finals(scram.evaluate(b"n,,n=user,r=client"), r=nonce)
    assert rejected(scram, final).reason in ("the nonce is wrong", "the proof is wrong")
    assert rejected(scram, final).told == ""


def test_row_14_channel_binding_is_not_offered() -> None:
    for header in (b"y,,", b"p=tls-unique,,", b",,", b"n,", b"n,,m=ext,"):
        assert rejected(server(), header + b"n=user,r=client").told == ""
    for binding in ("eSws", "", "biwsYQ=="):
        scram = server()
        assert rejected(scram, finals(scram.evaluate(b"n,,n=user,r=client"), c=binding)).told == ""


def test_row_15_another_authorization_id_is_named() -> None:
    for user in ("user", "nobody"):
        assert "authorization id" in rejected(server(), f"n,a=other,n={user},r=client".encode()).told
    scram = server()
    first = scram.evaluate(b"n,a=user,n=user,r=client").decode()
    signed = f"n=user,r=client,{first},c={base64.b64encode(b'n,a=user,').decode()},r=clientserver"
    salted = salt_password(SHA_256, PASSWORD, salt=b"salt", iterations=4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(USERS["user"][1].stored_key, signed.encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    scram.evaluate(f"c={base64.b64encode(b'n,a=user,').decode()},r=clientserver,p={proof}".encode())
    assert scram.is_complete


def test_row_16_a_stored_credential_with_few_iterations_is_no_login() -> None:
    scram = server()
    first = scram.evaluate(b"n,,n=weak,r=client")
    assert first.endswith(b",i=4096")
    assert "fewer than 4096" in rejected(scram, finals(first, user="weak")).reason


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"r=client2,s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r=client2,s=c2FsdA==,i=16385", "16385 iterations"),
        (b"r=client2,s=c2FsdA==,i=999999999", "iterations"),
        (b"r=client,s=c2FsdA==,i=4096", "nonce"),
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=client2,s=c2FsdA==,i=-1", "malformed"),
        (b"r=client2,s=c2FsdA,i=4096", "base64"),
        (b"m=x,r=client2,s=c2FsdA==,i=4096", "malformed"),
        (b"\xff", "UTF-8"),
    ],
)
def test_row_17_the_client_accepts_no_weak_server(first: bytes, why: str) -> None:
    client = ScramClient(SHA_256, "user", PASSWORD, "client")
    client.begin()
    with pytest.raises(AuthenticationError, match=why):
        client.finish(first)


@pytest.mark.parametrize("final", [b"v=", b"v=AAAA", b"e=other-error", b"", b"v=!"])
def test_row_17_the_client_verifies_the_server(final: bytes) -> None:
    client = ScramClient(SHA_256, "user", PASSWORD, "client")
    client.finish(server().evaluate(client.begin()))
    with pytest.raises(AuthenticationError):
        client.verify(final)


def test_row_07_unknown_users_take_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    digest = hmac.digest

    def counted(key: bytes, message: bytes, name: str) -> bytes:
        calls.append(1)
        return digest(key, message, name)

    def work(user: str, password: str) -> tuple[int, int, int, str]:
        scram = server()
        first = scram.evaluate(f"n,,n={user},r=client".encode())
        final = finals(first, password=password, user=user)
        calls.clear()
        monkeypatch.setattr(hmac, "digest", counted)
        again = server()
        assert len(again.evaluate(f"n,,n={user},r=client".encode())) > 0
        in_first = len(calls)
        told = rejected(again, final).told
        monkeypatch.undo()
        return len(first.split(b",")[1]) > 8, in_first, len(calls) - in_first, told

    assert work("user", "wrong")[1:] == work("nobody", "wrong")[1:] == work("weak", PASSWORD)[1:] == (1, 1, "")


def test_row_07_salts_of_unknown_users_look_like_those_of_the_format() -> None:
    texts = [f"SCRAM-SHA-256=[name=u{number},password=p]" for number in range(20)]
    of_format = [record.salt for record in parse_scram(texts, SystemRandomSource())]
    firsts = [server().evaluate(f"n,,n=nobody{number},r=client".encode()) for number in range(20)]
    of_unknown = [base64.b64decode(first.split(b",s=")[1].split(b",")[0]) for first in firsts]
    for salts in (of_format, of_unknown):
        assert len(set(salts)) == len(salts)
        assert all(re.fullmatch(b"[0-9a-z]{20,26}", salt) for salt in salts), salts


def test_row_07_an_unknown_user_always_has_the_same_salt_in_a_cluster() -> None:
    salts = {server().evaluate(b"n,,n=nobody,r=client") for _ in range(3)}
    assert len(salts) == 1
    assert server().evaluate(b"n,,n=nobody2,r=client") not in salts
    assert server({}).evaluate(b"n,,n=nobody,r=client") != server({}).evaluate(b"n,,n=nobody,r=client")


def test_salts_of_unknown_users_follow_from_the_first_user_through_all_changes() -> None:
    users: PersistentMap[str, Any] = PersistentMap()
    changing = UnknownUsers()
    before = b""
    for change, is_other in (
        ("+m", True),
        ("+n", False),
        ("+b", True),
        ("+c", False),
        ("-b", True),
        ("+m", False),
        ("+c", True),
    ):
        draft = users.draft()
        if change[0] == "+":
            draft[change[1]] = {SHA_256: credential(password=secrets.token_hex())}
        else:
            del draft[change[1]]
        users = draft.finish()
        salt, expected = (each.credential(SHA_256, "nobody", users).salt for each in (changing, UnknownUsers()))
        assert salt == expected, change
        assert (salt != before) == is_other, change
        before = salt


def test_a_change_does_not_search_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    draft: MapDraft[str, Any] = PersistentMap[str, Any]().draft()
    for user in "mnop":
        draft[user] = {SHA_256: credential()}
    users, unknown = draft.finish(), UnknownUsers()
    before = unknown.credential(SHA_256, "nobody", users)
    monkeypatch.setattr(PersistentMap, "__iter__", lambda self: pytest.fail("all users are searched"))
    draft = users.draft()
    draft["z"] = {SHA_256: credential()}
    assert unknown.credential(SHA_256, "nobody", draft.finish()) == before


@pytest.mark.parametrize("extension", [b"tokenauth=true", b"a=b,tokenauth=TRUE", b"tokenauth=true,a=b"])
def test_the_extension_makes_the_user_name_the_id_of_a_token(extension: bytes) -> None:
    scram = server()
    first = scram.evaluate(b"n,,n=user,r=client," + extension)
    assert "delegation tokens" in rejected(scram, finals(first)).reason


@pytest.mark.parametrize("extension", [b"tokenauth=false", b"nottokenauth=true", b"tokenauth=trueish"])
def test_other_extensions_leave_it_a_user_name(extension: bytes) -> None:
    scram = server()
    first = scram.evaluate(b"n,,n=user,r=client," + extension)
    assert not scram._rejection, first


@pytest.mark.parametrize(
    "token", [b"", b"\0", b"\xff", b"n,,n=user", b"n,,n=,r=a", b"n,,n=us=er,r=a", b"n,,r=a,n=user", b"n,,n=user,r=a b"]
)
def test_a_malformed_first_message_is_rejected(token: bytes) -> None:
    assert rejected(server(), token).told == ""


@pytest.mark.parametrize(
    "text",
    [
        "n,,n={name},r=x\0",
        "n,a={name},n=user,r=x\0",
        "n,,n=user,r={name}\0",
        "n,,n=user,r=x,{extensions}\0",
        "n,a=={name}",
    ],
)
@pytest.mark.parametrize("count", [15_000, 100_000])
def test_a_long_first_message_takes_little_time(text: str, count: int) -> None:
    token = text.format(name="a" * 4 * count, extensions=",".join(["a=b"] * count)).encode()
    spent = []
    for _ in range(3):  # the least counts: other work of the machine may take some of it
        begun = time.process_time()
        assert rejected(server(), token).told == ""
        spent.append(time.process_time() - begun)
    assert min(spent) < 0.02


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_messages_are_rejected_without_another_error(first: bytes, final: bytes) -> None:
    scram = server()
    for token in (first, b"n,,n=user,r=client", final, b"c=biws,r=clientserver,p=" + base64.b64encode(final)):
        try:
            scram.evaluate(token)
        except AuthenticationError:
            continue
    assert not scram.is_complete
