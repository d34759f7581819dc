"""PLAIN: right and wrong tokens; no rejection says what was wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.security.sasl.plain import PlainServer

OPTIONS = {"username": "admin", "password": "x", "user_admin": "x", "user_alice": "y", "user_": "z", "user_none": ""}
WRONG = [
    b"\0alice\0x",
    b"\0alice\0",
    b"\0alice\0yy",
    b"\0nobody\0y",
    b"\0\0z",
    b"\0none\0",
    b"\0username\0admin",
    b"alice\0y",
    b"\0alice\0y\0",
    b"",
    b"\0alice\0\xff",
]


def test_row_18_a_right_password() -> None:
    for token in (b"\0alice\0y", b"alice\0alice\0y"):
        plain = PlainServer(OPTIONS)
        assert plain.evaluate(token) == b""
        assert plain.is_complete
        assert plain.user == "alice"


@pytest.mark.parametrize("token", WRONG)
def test_row_18_wrong_tokens_have_one_message(token: bytes) -> None:
    plain = PlainServer(OPTIONS)
    with pytest.raises(AuthenticationError) as error:
        plain.evaluate(token)
    assert error.value.told == ""
    assert not plain.is_complete


def test_row_18_another_authorization_id_is_named_after_the_right_password() -> None:
    with pytest.raises(AuthenticationError) as error:
        PlainServer(OPTIONS).evaluate(b"admin\0alice\0y")
    assert "authorization id" in error.value.told
    with pytest.raises(AuthenticationError) as error:
        PlainServer(OPTIONS).evaluate(b"admin\0alice\0x")
    assert error.value.told == ""


@given(st.binary())
def test_any_token_is_rejected_without_another_error(token: bytes) -> None:
    with pytest.raises(AuthenticationError):
        PlainServer({}).evaluate(token)
