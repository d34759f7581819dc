"""Member of a classic group that sends one frame at a time, and rebalances only when the test calls for it."""

from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def subscription(note=b""):
    """Return subscription metadata in the real format, because Kafka reads the topics from it."""
    return encode_consumer_protocol(ConsumerProtocolSubscription(topics=["nothing"], user_data=note))


class GroupMember(Peer):
    def __init__(self, bootstrap, group, *, instance=None, protocols=None, session_ms=10_000):
        super().__init__(bootstrap)
        self.group, self.instance, self.session_ms = group, instance, session_ms
        self.rebalance_ms = 10_000
        self.protocols = [
            JoinGroupRequestProtocol(name=name, metadata=data)
            for name, data in protocols or [("range", subscription())]
        ]
        self.member_id, self.generation, self.leader, self.members = "", -1, None, []
        self.settled = False
        request = FindCoordinatorRequest(coordinator_keys=[group])
        eventually(lambda: self.ask(request, 6).coordinators[0].error_code == 0, "the coordinator")

    def join_request(self):
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=self.protocols,
        )

    def send_join(self, version=9):
        self.send(self.join_request(), version)

    def receive_join(self, version=9):
        answer = self.receive(self.join_request(), version)
        if answer.error_code == 0:
            self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
            self.members = answer.members
        return answer

    def join_once(self, version=9):
        self.send_join(version)
        return self.receive_join(version)

    def join(self, version=9):
        """Join like a client: retry while the coordinator is loading, and join again with the assigned member id."""
        answer = eventually(lambda: (got := self.join_once(version)).error_code not in LOADING and got, "an answer")
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.join_once(version)
        return answer

    def begin_to_join(self, version=9):
        """Get a member id, then send the join without waiting for other members."""
        answer = self.join_once(version)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.member_id = answer.member_id
        self.send_join(version)

    @property
    def is_leader(self):
        return self.leader == self.member_id

    def sync_request(self, assignments):
        given = [SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in assignments.items()]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.protocols[0].name,
            assignments=given,
        )

    def sync(self, assignments=None, version=5):
        return self.ask(self.sync_request(assignments or {}), version)

    def heartbeat(self, version=4):
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance if version >= 3 else None,
        )
        return self.ask(request, version).error_code

    def leave(self, version=5):
        if version < 3:
            return self.ask(LeaveGroupRequest(group_id=self.group, member_id=self.member_id), version).error_code
        who = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        answer = self.ask(LeaveGroupRequest(group_id=self.group, members=[who]), version)
        return answer.error_code or answer.members[0].error_code
