"""Pitfall 18: FindCoordinator has one key up to version 3, and many keys from version 4 on."""

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.short
@pytest.mark.parametrize("version", range(4, 7))
def test_many_groups_are_found_at_once(peer, bootstrap, unique, version):
    groups = [unique(f"group-{number}") for number in range(5)]
    host, port = bootstrap.split(":")

    def found():
        answer = peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=groups), version)
        return {each.key: (each.error_code, each.node_id, each.host, each.port) for each in answer.coordinators}

    eventually(lambda: found() == {group: (0, 1, host, int(port)) for group in groups}, "the coordinators")


@pytest.mark.parametrize("version", range(4))
def test_one_group_is_found_in_old_versions(peer, bootstrap, group, version):
    def found():
        answer = peer.ask(FindCoordinatorRequest(key=group), version)
        return (answer.error_code, answer.node_id, f"{answer.host}:{answer.port}")

    eventually(lambda: found() == (0, 1, bootstrap), "the coordinator")


@pytest.mark.parametrize("version", [1, 4, 6])
def test_an_unknown_kind_of_coordinator_is_rejected(peer, group, version):
    key = {"key": group} if version < 4 else {"coordinator_keys": [group]}
    answer = peer.ask(FindCoordinatorRequest(key_type=9, **key), version)
    code = answer.error_code if version < 4 else answer.coordinators[0].error_code
    assert code == ErrorCode.INVALID_REQUEST
