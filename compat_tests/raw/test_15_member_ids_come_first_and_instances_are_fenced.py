"""Pitfall 15: a dynamic member first gets a member id (KIP-394); a duplicate static member is fenced (KIP-345)."""

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.raw.group_member import LOADING, GroupMember
from kwire.protocol.error_codes import ErrorCode


@pytest.mark.short
@pytest.mark.parametrize("version", range(10))
def test_join_group_requires_a_member_id_from_version_4(bootstrap, group, version):
    with GroupMember(bootstrap, group) as member:
        answer = eventually(lambda: (got := member.join_once(version)).error_code not in LOADING and got, "an answer")
        if version < 4:
            assert (answer.error_code, answer.generation_id) == (0, 1)
            return
        assert (answer.error_code, answer.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert answer.member_id.startswith("raw-")
        member.member_id = answer.member_id
        assert (member.join_once(version).error_code, member.generation) == (0, 1)


@pytest.mark.short
@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_joins_at_once_and_its_double_fences_it(bootstrap, group, version):
    with (
        GroupMember(bootstrap, group, instance="one") as first,
        GroupMember(bootstrap, group, instance="one") as second,
    ):
        assert (first.join(version).error_code, first.generation) == (0, 1)
        assert first.sync({first.member_id: b"mine"}).error_code == 0
        answer = second.join(version)
        assert (answer.error_code, answer.generation_id) == (0, 1)
        assert second.member_id != first.member_id
        # Same instance, same protocols: the member keeps its assignment without a rebalance.
        assert second.sync().assignment == b"mine"
        assert second.heartbeat() == 0
        assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert first.sync().error_code == ErrorCode.FENCED_INSTANCE_ID
        assert first.join_once(version).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_administrator_removes_a_static_member_by_its_instance(bootstrap, group):
    with GroupMember(bootstrap, group, instance="one") as member:
        member.join()
        member.sync({})
        member_id, member.member_id = member.member_id, ""
        assert member.leave() == 0
        member.member_id = member_id
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        member.instance, member.member_id = "nobody", ""
        assert member.leave() == ErrorCode.UNKNOWN_MEMBER_ID
