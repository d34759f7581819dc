"""Steps of the members of streams groups (KIP-1071): heartbeats with several topologies, tasks and endpoints."""

import random

from compat_tests.group_script.known import Assigned, Known, Step, member_id, often, some, sorted_assigned, wrong_epoch
from compat_tests.group_script.topics import DELETED, MISSING
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatCopartitionGroup,
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatKeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTaskOffset,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)

GROUPS = ("streams-1", "streams-2")
WITH_ENDPOINTS = "streams-1"
"""Group whose members have endpoints. Its source topics exist, because Kafka fails otherwise (docs/differences.md)."""
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
REBALANCE_TIMEOUT_MS = 3_000_000
MEMBERS = 5


def heartbeat(source: random.Random) -> Step:
    group, number = source.choice(GROUPS), source.randrange(MEMBERS)
    name = member_id(number)

    def build(known: Known, source: random.Random) -> StreamsGroupHeartbeatRequest:
        member = known.member(group, name)
        request = StreamsGroupHeartbeatRequest(group_id=group, member_id=name, member_epoch=member.epoch)
        request.endpoint_information_epoch = source.choice((0, 0, 1, 3))
        if member.epoch == 0 or often(source, 0.03):
            _join(request, source, group, number)
        elif often(source, 0.1):
            request.member_epoch = LEAVES if often(source, 0.95) else LEAVES_FOR_A_WHILE
        else:
            _continue(request, source, group, member.owned, member.standby)
        return request

    return Step(version=0, build=build, learn=_learn, groups=(group,))


def _join(request: StreamsGroupHeartbeatRequest, source: random.Random, group: str, number: int) -> None:
    request.member_epoch = 0
    request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS if often(source, 0.97) else source.choice((-1, 0))
    request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    if often(source, 0.03):
        request.active_tasks = source.choice((None, [StreamsGroupHeartbeatTaskIds(subtopology_id="0", partitions=[0])]))
    request.process_id = f"process-{number // 2}" if often(source, 0.97) else source.choice((None, ""))
    request.topology = topology(source, group) if often(source, 0.98) else None
    request.client_tags = [StreamsGroupHeartbeatKeyValue(key="zone", value=str(number % 2))]
    request.rack_id = source.choice((None, "r1"))
    if group == WITH_ENDPOINTS and often(source, 0.3):
        request.user_endpoint = StreamsGroupHeartbeatEndpoint(host=f"host{number}", port=9000 + number)
    if often(source, 0.03):
        request.instance_id = source.choice(("", f"instance-{number}"))


def _continue(
    request: StreamsGroupHeartbeatRequest, source: random.Random, group: str, active: Assigned, standby: Assigned
) -> None:
    if often(source, 0.06):
        request.member_epoch = wrong_epoch(source, request.member_epoch)
    if often(source, 0.7):
        owned = active if often(source, 0.8) else {task: some(source, active[task]) for task in active}
        if often(source, 0.03):
            owned = {**owned, source.choice(("0", "9")): [0, 1, 50]}
        request.active_tasks = _task_ids(owned)
        request.standby_tasks = _task_ids(standby)
        request.warmup_tasks = []
        if often(source, 0.05):
            request.standby_tasks = None
    if often(source, 0.08):
        request.topology = topology(source, group)
    if often(source, 0.05):
        request.process_id = source.choice((None, "", "process-9"))
    if group == WITH_ENDPOINTS and often(source, 0.05):
        request.user_endpoint = StreamsGroupHeartbeatEndpoint(host="moved", port=1)
    if often(source, 0.05):
        request.client_tags = [StreamsGroupHeartbeatKeyValue(key="zone", value="2")]
    if often(source, 0.05):
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS - 1
    if often(source, 0.1):
        request.task_offsets = [StreamsGroupHeartbeatTaskOffset(subtopology_id="0", partition=0, offset=5)]
        request.task_end_offsets = [StreamsGroupHeartbeatTaskOffset(subtopology_id="0", partition=0, offset=9)]
    request.shutdown_application = often(source, 0.02)


def _task_ids(tasks: Assigned) -> list[StreamsGroupHeartbeatTaskIds]:
    return [
        StreamsGroupHeartbeatTaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in tasks.items()
    ]


def _learn(known: Known, request: StreamsGroupHeartbeatRequest, answer: StreamsGroupHeartbeatResponse) -> None:
    member = known.member(request.group_id, request.member_id)
    if member.answered(request, answer):
        if answer.active_tasks is not None:
            member.owned = _assigned(answer.active_tasks)
        if answer.standby_tasks is not None:
            member.standby = _assigned(answer.standby_tasks)


def _assigned(tasks: list[StreamsGroupHeartbeatTaskIds]) -> Assigned:
    return sorted_assigned({each.subtopology_id: each.partitions for each in tasks})


def topology(source: random.Random, group: str) -> StreamsGroupHeartbeatTopology:
    """Return mostly the topology of the group, sometimes a newer one, or one that is wrong."""
    kind = source.choices(
        ("usual", "newer", "missing source", "not alike", "other at the same epoch", "invalid"), (70, 4, 4, 4, 2, 3)
    )[0]
    if group == WITH_ENDPOINTS and kind in ("missing source", "not alike"):
        kind = "usual"
    epoch = 2 if kind == "newer" else 1
    subtopologies = [_counting(group), _plain("1", "dates")]
    if kind == "missing source":
        subtopologies = [_counting(group), _plain("1", source.choice((MISSING, *DELETED)))]
        epoch = 3
    elif kind == "not alike":
        subtopologies = [_joining()]
        epoch = 4
    elif kind == "other at the same epoch":
        subtopologies = [_plain("0", "apples")]
    elif kind == "invalid":
        subtopologies = source.choice(([], [_plain("", "apples")], [_plain("0", "")]))
    return StreamsGroupHeartbeatTopology(epoch=epoch, subtopologies=subtopologies)


def _plain(subtopology_id: str, source_topic: str) -> StreamsGroupHeartbeatSubtopology:
    return StreamsGroupHeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=[source_topic],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )


def _counting(group: str) -> StreamsGroupHeartbeatSubtopology:
    """Return a subtopology with a state: it has a changelog, and standby tasks if the group is set so."""
    counting = _plain("0", "berries")
    counting.state_changelog_topics = [
        StreamsGroupHeartbeatTopicInfo(
            name=f"{group}-counts-changelog",
            partitions=0,
            replication_factor=0,
            topic_configs=[StreamsGroupHeartbeatKeyValue(key="cleanup.policy", value="compact")],
        )
    ]
    return counting


def _joining() -> StreamsGroupHeartbeatSubtopology:
    """Return a subtopology whose source topics would need the same number of partitions."""
    joining = _plain("0", "berries")
    joining.source_topics = ["berries", "cherries"]
    joining.copartition_groups = [
        StreamsGroupHeartbeatCopartitionGroup(source_topics=[0, 1], source_topic_regex=[], repartition_source_topics=[])
    ]
    return joining
