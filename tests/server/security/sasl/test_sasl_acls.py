"""Users that SASL has authenticated, and the access control entries that name them."""

from __future__ import annotations

from pathlib import Path

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.server.node.authorizers import STANDARD
from tests.server.security.acl_requests import create, entry
from tests.server.security.sasl.frames import settings_of
from tests.server.security.sasl.logins import alter, log_in, upsertion
from tests.support.requests import batch, create_topic, produce
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def test_an_authenticated_user_has_the_rights_of_its_entries(tmp_path: Path) -> None:
    secured = settings_of() | {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
    with RunningBroker(tmp_path, secured) as broker, broker.client() as admin, broker.client() as alice:
        assert log_in(admin, "PLAIN", "admin", "x") == ""
        assert log_in(alice, "PLAIN", "alice", "y") == ""
        name, _ = create_topic(admin)

        def code_of_produce() -> int:
            return int(produce(alice, name, batch(b"x")).error_code)

        assert code_of_produce() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert alter(alice, [upsertion("alice")])["alice"][0] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert create(admin, entry(Operation.WRITE, name=name))[0][0] == ErrorCode.NONE
        eventually(lambda: code_of_produce() == ErrorCode.NONE, "the new right")
        cluster = entry(Operation.ALTER, resource=ResourceType.CLUSTER, name="kafka-cluster")
        assert create(admin, cluster)[0][0] == ErrorCode.NONE
        eventually(lambda: alter(alice, [upsertion("dora")]) == {"dora": (0, None)}, "the right to alter users")
        with broker.client() as dora:
            assert log_in(dora, "SCRAM-SHA-256", "dora", "secret") == ""
            assert produce(dora, name, batch(b"x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
