"""Replay of a script on both brokers in lockstep: one request to each, one response of each, compared before the next.

A response may depend on other requests (a join waits for other members). The replay finds this out by sending another
request meanwhile. It compares the delayed response when it arrives, on both brokers, and uses another connection until
then. After a metadata change, the replay waits until all parts of a broker have applied it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compat_tests.differential.comparing import Difference, differences
from compat_tests.differential.memory import learn, learn_topics, lost_its_leader
from compat_tests.differential.normalising import plain
from compat_tests.differential.script import Step
from compat_tests.differential.wire import (
    ANSWER_SECONDS,
    CLOSED,
    SILENT,
    WAITS,
    Closed,
    Odd,
    Side,
    answer_of,
    answers_nothing,
)
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.schema import schema_of

MAY_WAIT = {"JoinGroupRequest", "SyncGroupRequest"}
MUTATIONS = {
    "CreateTopicsRequest",
    "DeleteTopicsRequest",
    "CreatePartitionsRequest",
    "AlterConfigsRequest",
    "IncrementalAlterConfigsRequest",
    "AlterClientQuotasRequest",
    "UpdateFeaturesRequest",
    "MetadataRequest",
    "FindCoordinatorRequest",
}
GROUP = 32
"""Resource type."""
GRACE_SECONDS = 0.02
SETTLE_SECONDS = 3.0
REST_SECONDS = 1.0
MARK = "consumer.session.timeout.ms", range(45_000, 60_000)
"""A configuration of a group without members, set to one value after the other."""
WAITING_MOST = 24


@dataclass(slots=True, kw_only=True)
class Replay:
    kwire: Side
    kafka: Side
    found: Callable[[Difference], None]
    answered: dict[str, int] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    marks: int = 0
    without_leader: set[str] = field(default_factory=set)
    """Groups whose next leader may differ between the sides, so that their responses would differ, too."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.kwire, self.kafka

    def play(self, step: Step) -> None:
        self._late()
        asked = [side.frames(step) for side in self.sides]
        for side, frames in zip(self.sides, asked, strict=True):
            for frame in frames:
                side.connection(step.slot).send(frame)
        outcomes = self._outcomes(step, silent=len(asked[0]) > 1)
        self._compare(step, outcomes)
        for side, outcome in zip(self.sides, outcomes, strict=True):
            if WAITS in outcomes:
                side.waiting[step.number] = side.connections.pop(step.slot)
            elif isinstance(outcome, Odd) and outcome != SILENT:
                side.drop(step.slot)
        if WAITS in outcomes:
            self.steps[step.number] = step
        if any(isinstance(outcome, Odd) and outcome != SILENT for outcome in outcomes):
            for side in self.sides:
                side.drop(step.slot)
        if type(step.request).__name__ in MUTATIONS:
            self._settle()
        elif type(step.request).__name__ == "LeaveGroupRequest":
            self._rest(step.request.group_id)

    def _outcomes(self, step: Step, *, silent: bool) -> list[Any]:
        if type(step.request).__name__ in MAY_WAIT and not self._any_answers(step):
            return [WAITS, WAITS]
        outcomes = [self._outcome(side, side.connection(step.slot), step) for side in self.sides]
        return [SILENT if silent and not isinstance(each, Odd) else each for each in outcomes]

    def _any_answers(self, step: Step) -> bool:
        connections = [side.connection(step.slot) for side in self.sides]
        if any(connection.is_readable(GRACE_SECONDS / 2) for connection in connections):
            return True
        for side in self.sides:
            side.ask(HeartbeatRequest(group_id=str(step.request.group_id)[:200], member_id="nobody"), 3)
        return any(connection.is_readable(GRACE_SECONDS) for connection in connections)

    def _outcome(self, side: Side, connection: Any, step: Step) -> Any:
        try:
            frame = connection.frame()
        except Closed:
            return CLOSED
        except TimeoutError:
            return Odd(f"no answer within {ANSWER_SECONDS:.0f} s")
        silent = answers_nothing(step.request)
        if silent:
            return SILENT
        version = 0 if step.breakage == "version" and frame[4:6] == UNSUPPORTED_VERSION else step.version
        try:
            return answer_of(frame, step.request, version)
        except ProtocolError as error:
            return Odd(f"an answer that cannot be read: {error}")

    def _compare(self, step: Step, outcomes: list[Any]) -> None:
        shown = []
        for side, outcome in zip(self.sides, outcomes, strict=True):
            if isinstance(outcome, Odd):
                shown.append({"outcome": outcome.what})
                continue
            if not step.breakage:
                learn(side.memory, step.request, outcome)
            schema = schema_of(type(outcome))
            shown.append(plain(schema, outcome, step.version, side.names))
        if self._have_new_leaders(step, outcomes):
            self.without_leader.add(step.request.group_id)
            for each in shown:
                each |= {"leader": "new", "members": "for the leader"}
        for difference in differences(step, shown[0], shown[1], (self.kwire.names, self.kafka.names)):
            self.found(difference)

    def _have_new_leaders(self, step: Step, outcomes: list[Any]) -> bool:
        """Return True if a group lost its leader on both sides: Kafka then takes the first member of a hash table."""
        if type(step.request).__name__ != "JoinGroupRequest" or step.breakage:
            return False
        if any(isinstance(outcome, Odd) or outcome.error_code for outcome in outcomes):
            return False
        if all(outcome.leader == outcome.member_id for outcome in outcomes):
            return False  # the leader is unchanged
        return all(
            lost_its_leader(side.memory, step.request.group_id, outcome.generation_id)
            for side, outcome in zip(self.sides, outcomes, strict=True)
        )

    def _late(self) -> None:
        """Compare delayed responses that have arrived since the last step."""
        for number in list(self.kwire.waiting):
            connections = [side.waiting[number] for side in self.sides]
            if not any(connection.is_readable(0) for connection in connections):
                continue
            for side in self.sides:
                del side.waiting[number]
            step = self.steps.pop(number)
            self._compare(
                step, [self._outcome(side, one, step) for side, one in zip(self.sides, connections, strict=True)]
            )
            for connection in connections:
                connection.close()
        while self.without_leader:
            group_id = self.without_leader.pop()
            for side in self.sides:
                _dismiss(side, group_id)
            self._rest(group_id)
        while len(self.kwire.waiting) > WAITING_MOST:
            number = min(self.kwire.waiting)
            del self.steps[number]
            for side in self.sides:
                side.waiting.pop(number).close()

    def _rest(self, group_id: str) -> None:
        """Wait until a group has the same state on both sides: Kafka ends an empty group's rebalance by a timer."""
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline:
            ours, theirs = (_state(side, group_id) for side in self.sides)
            if ours == theirs:
                return

    def _settle(self) -> None:
        """Wait until both brokers show the same topics and have leaders; later comparisons find what still differs."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            pictures = [_picture(side) for side in self.sides]
            if pictures[0] == pictures[1]:
                break
            time.sleep(0.01)
        self.marks += 1
        for side in self.sides:
            _mark(side, MARK[1][self.marks % len(MARK[1])])


def _state(side: Side, group_id: str) -> str:
    (group,) = side.ask(DescribeGroupsRequest(groups=[group_id]), 5).groups
    return str(group.group_state)


def _mark(side: Side, value: int) -> None:
    """Make one more change and wait until it is visible: the whole broker has then applied all earlier changes.

    Kafka's components apply a change one after the other, so its metadata can show a change that others still lack.
    No component applies two changes at the same time.
    """
    change = IncrementalAlterConfigsAlterableConfig(name=MARK[0], value=str(value))
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=GROUP, resource_name="mark", configs=[change])
    side.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    asked = DescribeConfigsResource(resource_type=GROUP, resource_name="mark", configuration_keys=[MARK[0]])
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        (result,) = side.ask(DescribeConfigsRequest(resources=[asked]), 4).results
        if [each.value for each in result.configs] == [str(value)]:
            return
    raise TimeoutError(f"{side.name} does not show a change after {ANSWER_SECONDS:.0f} s")


def _dismiss(side: Side, group_id: str) -> None:
    """Remove all members, so that the group is the same on both sides again."""
    (group,) = side.ask(DescribeGroupsRequest(groups=[group_id]), 5).groups
    members = [MemberIdentity(member_id=each.member_id) for each in group.members]
    side.ask(LeaveGroupRequest(group_id=group_id, members=members), 4)


def _picture(side: Side) -> Any:
    answer = side.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
    learn_topics(side.memory, answer)
    topics = {each.name: len(each.partitions) for each in answer.topics if not each.name.startswith("__")}
    wanted = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-2) for index in range(count)]
        )
        for name, count in topics.items()
    ]
    starts = side.ask(ListOffsetsRequest(replica_id=-1, topics=wanted), 7)
    errors = {each.error_code for topic in starts.topics for each in topic.partitions}
    return topics, errors


UNSUPPORTED_VERSION = (35).to_bytes(2, "big")
