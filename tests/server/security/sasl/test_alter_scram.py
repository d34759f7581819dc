"""AlterUserScramCredentials: each check, and logins with the credentials that it sets and deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import alter, log_in, upsertion
from tests.support.running import RunningBroker

GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
MISSING = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
DONE = (0, None)


def test_row_16_each_check(tmp_path: Path) -> None:
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        assert alter(client, [upsertion("a", iterations=4095)]) == {"a": (unacceptable, "Too few iterations")}
        assert alter(client, [upsertion("a", iterations=16385)]) == {"a": (unacceptable, "Too many iterations")}
        assert alter(client, [upsertion("")]) == {"": (unacceptable, "Username must not be empty")}
        assert alter(client, [upsertion("a", salt=b"")]) == {"a": (unacceptable, "Salt must not be empty")}
        unknown = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        assert alter(client, [upsertion("a", mechanism=3)]) == {"a": unknown}
        assert alter(client, [], [("a", 0)]) == {"a": unknown}
        assert alter(client, [], [("a", 1)]) == {"a": MISSING}
        assert alter(client, [upsertion("a", iterations=4096), upsertion("b", iterations=16384)]) == {
            "a": DONE,
            "b": DONE,
        }
        assert alter(client, [upsertion("a"), upsertion("c")], [("a", 1), ("b", 2)]) == {
            "a": TWICE,
            "b": MISSING,
            "c": DONE,
        }
        assert alter(client, [upsertion("d"), upsertion("d", mechanism=2)]) == {"d": TWICE}
        assert alter(client, [upsertion("b", iterations=1), upsertion("b")]) == {
            "b": (unacceptable, "Too few iterations")
        }
        assert alter(client, [], [("a", 1), ("b", 1), ("c", 1)]) == {"a": DONE, "b": DONE, "c": DONE}
        assert alter(client) == {}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_credential_counts_for_the_next_login(mechanism: str, tmp_path: Path) -> None:
    number = 1 if mechanism.endswith("256") else 2

    def logs_in(broker: RunningBroker, password: str) -> bool:
        with broker.client() as client:
            message = log_in(client, mechanism, "carol", password)
        assert message in ("", GENERIC.format(mechanism))
        return message == ""

    with RunningBroker(tmp_path, settings_of()) as broker, broker.client() as admin:
        assert log_in(admin, "PLAIN", "admin", "x") == ""
        assert not logs_in(broker, "secret")
        assert alter(admin, [upsertion("carol", mechanism=number)]) == {"carol": DONE}
        assert logs_in(broker, "secret")
        assert not logs_in(broker, "other")
        assert alter(admin, [upsertion("carol", "other", mechanism=number, salt=b"2")]) == {"carol": DONE}
        assert logs_in(broker, "other")
        assert not logs_in(broker, "secret")
        assert alter(admin, [], [("carol", number)]) == {"carol": DONE}
        assert not logs_in(broker, "other")
    with RunningBroker(tmp_path, settings_of()) as broker:
        assert not logs_in(broker, "other")
