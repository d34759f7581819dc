"""Runner of the streams group scripts: the commands of the group scripts, and those of KIP-1071.

    > topology 0=t/>r/!c 1=<r*4/+t+r          topology of clients that join, by subtopology: a source topic, ">" a topic
                                              that is written, "<" a repartition topic (with a fixed number of
                                              partitions after "*"), "!" a changelog topic, "+" a copartition group
    > beat a                                  StreamsGroupHeartbeat at the member's epoch, with what it owns; the first
                                              one joins. Options: epoch= member= process= rack= rebalance= tags=k:v
                                              endpoint=host:port endpoints=epoch owned=0_0,0_1 (- for none, * for null)
                                              standby=0_0 warmup=0_0 instance= and the words shutdown, join, no-topology
    > leave-group a                           with epoch -1
    > streams                                 the group with its members, as StreamsGroupDescribe returns it;
                                              streams-counts shows the numbers of tasks
    > create-topic v=4                        and > grow-topic t=5
    > setting group.streams.max.size=2        settings of the broker; group:streams.session.timeout.ms=... of the group

A member owns what its last response assigned, and stops owning what it no longer contains.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kwire.chunks import at_once
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeat
from kwire.coordinator.group.streams.statuses import Status
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeAssignment, StreamsGroupDescribeTopology
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatCopartitionGroup,
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatKeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)
from tests.coordinator import consumer_script, group_script
from tests.coordinator.clients import client_named

ROLES = ("active", "standby", "warmup")
SHOWN_MAX = 100
"""Tasks that are listed; of more, a script shows only that they are many."""
Owned = dict[str, dict[str, list[int]]]


class ScriptRunner(consumer_script.ScriptRunner):
    """State of a running script and its observed results."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, loop)
        self._tasks: dict[str, Owned] = {}
        self._topology_sent = topology_of({"0": "t"}, 0)

    # --- heartbeats

    def _topology(self, _: list[str], options: dict[str, str]) -> None:
        epoch = int(options.pop("epoch", "0"))
        self._topology_sent = topology_of(options, epoch)

    def _beat(self, names: list[str], options: dict[str, str]) -> None:
        client, words = self._client(names[0]), names[1:]
        joins = client.generation <= 0 or "join" in words
        epoch = int(options.get("epoch", 0 if joins else client.generation))
        client.member_id = options.get("member", client.member_id or client.name)
        active, standby, warmup = (self._reported_tasks(client.name, role, options, epoch) for role in ROLES)
        endpoint = options.get("endpoint")
        tags = options.get("tags")
        request = StreamsGroupHeartbeatRequest(
            group_id=options.get("group", group_script.GROUP),
            member_id=client.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=int(options.get("endpoints", "0")),
            instance_id=options.get("instance"),
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("rebalance", "60000" if epoch == 0 else "-1")),
            topology=self._topology_sent if (epoch == 0 and "no-topology" not in words) else None,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            process_id=options.get("process", client.name if epoch == 0 else None),
            user_endpoint=None if endpoint is None else _endpoint(endpoint),
            client_tags=None if tags is None else _tags(tags),
            shutdown_application="shutdown" in words,
        )
        self._when(client, self.world.groups.streams.heartbeat(request, client_named(client.name)), self._streamed)

    def _leave_group(self, names: list[str], options: dict[str, str]) -> None:
        self._beat(names, {"epoch": "-1", "owned": "*", **options})
        self._tasks.pop(names[0], None)

    def fenced(self, name: str) -> None:
        """Let a client rejoin with its next heartbeat, without tasks."""
        self._client(name).generation = -1
        self._tasks.pop(name, None)

    def _reported_tasks(
        self, name: str, role: str, options: dict[str, str], epoch: int
    ) -> list[StreamsGroupHeartbeatTaskIds] | None:
        """Return the tasks that a client reports: what it was assigned, unless the script says otherwise."""
        text = options.get("owned" if role == "active" else role)
        if options.get("owned") == "*" and (text is None or text == "*"):
            return None
        owned = {} if epoch == 0 and text is None else self._tasks.get(name, {}).get(role, {})
        if text is not None:
            owned = {}
            for each in () if text == "-" else text.split(","):
                subtopology, _, partition = each.partition("_")
                owned.setdefault(subtopology, []).append(int(partition))
        return [StreamsGroupHeartbeatTaskIds(subtopology_id=each, partitions=owned[each]) for each in owned]

    def _streamed(self, client: Any, heartbeat: StreamsHeartbeat) -> None:
        response = heartbeat.response
        if response.error_code:
            message = f" ({response.error_message})" if response.error_message else ""
            self._see(f"{client.name}: {group_script._code(response.error_code)}{message}")
            return
        client.member_id, client.generation = response.member_id, response.member_epoch
        self._see(f"{client.name}: epoch {response.member_epoch}{self._assigned(client.name, response)}")
        for status in response.status or ():
            self._see(f"  {Status(status.status_code).name}: {status.status_detail}")
        for topic in heartbeat.missing.values():
            configs = "".join(f" {name}={value}" for name, value in topic.configs.items())
            self._see(f"  create {topic.name}: {topic.partitions} partitions{configs}")
        if response.partitions_by_user_endpoint is not None:
            self._see(f"  endpoints of epoch {response.endpoint_information_epoch}")
        for each in response.partitions_by_user_endpoint or ():
            lists = [
                ",".join(f"{topic.topic}-{index}" for topic in topics for index in topic.partitions) or "nothing"
                for topics in (each.active_partitions, each.standby_partitions)
            ]
            self._see(f"  {each.user_endpoint.host}:{each.user_endpoint.port} active {lists[0]} standby {lists[1]}")

    def _assigned(self, name: str, response: StreamsGroupHeartbeatResponse) -> str:
        if response.active_tasks is None:
            return ""
        given = (response.active_tasks, response.standby_tasks or [], response.warmup_tasks or [])
        self._tasks[name] = {
            role: {each.subtopology_id: each.partitions for each in tasks}
            for role, tasks in zip(ROLES, given, strict=True)
        }
        if sum(len(partitions) for tasks in self._tasks[name].values() for partitions in tasks.values()) > SHOWN_MAX:
            return " many"
        return " " + (_listed_roles(self._tasks[name]) or "nothing")

    # --- administration

    def _streams(self, names: list[str], _: dict[str, str]) -> None:
        group = at_once(self.world.groups.streams.describe(names[0] if names else group_script.GROUP))
        if group.error_code:
            self._see(f"{group_script._code(group.error_code)} ({group.error_message})")
            return
        self._see(f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch}")
        if "topology" in names:
            self._see_topology(group.topology)
        for member in group.members:
            held, target = _roles(member.assignment), _roles(member.target_assignment)
            more = "" if held == target else f" target={_listed_roles(target) or 'nothing'}"
            self._see(f"  {member.member_id} epoch={member.member_epoch} {_listed_roles(held) or 'nothing'}{more}")

    def _streams_counts(self, _: list[str], __: dict[str, str]) -> None:
        group = at_once(self.world.groups.streams.describe(group_script.GROUP))
        self._see(f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch}")
        for member in group.members:
            held, target = (
                sum(len(each.partitions) for each in tasks.active_tasks)
                for tasks in (member.assignment, member.target_assignment)
            )
            self._see(f"  {member.member_id} epoch={member.member_epoch} has {held} of {target} tasks")

    def _show_topology(self, _: list[str], __: dict[str, str]) -> None:
        topology = at_once(self.world.groups.streams.describe(group_script.GROUP)).topology
        assert topology is not None
        self._see_topology(topology)

    def _see_topology(self, topology: StreamsGroupDescribeTopology | None) -> None:
        assert topology is not None
        self._see(f"topology {topology.epoch}")
        for each in topology.subtopologies or ():
            topics = [*each.source_topics, *(f">{name}" for name in each.repartition_sink_topics)]
            topics += [f"<{topic.name}*{topic.partitions}" for topic in each.repartition_source_topics]
            topics += [f"!{topic.name}*{topic.partitions}" for topic in each.state_changelog_topics]
            self._see(f"  {each.subtopology_id}={'/'.join(topics)}")

    # --- records

    def _described_record(self, record: GroupRecord) -> str:
        kind = type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
        member = f" {record.key.member_id}" if hasattr(record.key, "member_id") else ""
        return f"{kind}{member}{' tombstone' if record.value is None else self._values(record.value)}"

    def _values(self, value: Any) -> str:
        shown = super()._values(value)
        for field in ("validated_topology_epoch", "topology_epoch", "process_id"):
            if hasattr(value, field):
                shown += f" {field}={getattr(value, field)}"
        for field in (*(f"{role}_tasks" for role in ROLES), *(f"{role}_tasks_pending_revocation" for role in ROLES)):
            if getattr(value, field, None):
                held = {each.subtopology_id: each.partitions for each in getattr(value, field)}
                shown += f" {field}={_listed(held)}"
        configs = getattr(value, "last_assignment_configs", None)
        return shown + "".join(f" {each.key}={each.value}" for each in configs or ())


def topology_of(texts: dict[str, str], epoch: int) -> StreamsGroupHeartbeatTopology:
    """Return the topology that a script describes."""
    return StreamsGroupHeartbeatTopology(
        epoch=epoch, subtopologies=[_subtopology(name, text.split("/")) for name, text in texts.items()]
    )


def _subtopology(name: str, items: list[str]) -> StreamsGroupHeartbeatSubtopology:
    sources = [item for item in items if item[0] not in "<>!+"]
    repartition = [_topic(item[1:]) for item in items if item[0] == "<"]
    groups = []
    for item in items:
        if item[0] == "+":
            names = item[1:].split("+")
            groups.append(
                StreamsGroupHeartbeatCopartitionGroup(
                    source_topics=[index for index, source in enumerate(sources) if source in names],
                    repartition_source_topics=[index for index, topic in enumerate(repartition) if topic.name in names],
                )
            )
    return StreamsGroupHeartbeatSubtopology(
        subtopology_id=name,
        source_topics=sources,
        state_changelog_topics=[_topic(item[1:]) for item in items if item[0] == "!"],
        repartition_sink_topics=[item[1:] for item in items if item[0] == ">"],
        repartition_source_topics=repartition,
        copartition_groups=groups,
    )


def _topic(text: str) -> StreamsGroupHeartbeatTopicInfo:
    name, _, count = text.partition("*")
    configs = [StreamsGroupHeartbeatKeyValue(key="cleanup.policy", value="compact")]
    return StreamsGroupHeartbeatTopicInfo(name=name, partitions=int(count or "0"), topic_configs=configs)


def _endpoint(text: str) -> StreamsGroupHeartbeatEndpoint:
    host, _, port = text.partition(":")
    return StreamsGroupHeartbeatEndpoint(host=host, port=int(port))


def _tags(text: str) -> list[StreamsGroupHeartbeatKeyValue]:
    pairs = (each.partition(":") for each in text.split(","))
    return [StreamsGroupHeartbeatKeyValue(key=key, value=value) for key, _, value in pairs]


def _roles(assignment: StreamsGroupDescribeAssignment) -> Owned:
    given = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return {
        role: {each.subtopology_id: each.partitions for each in tasks} for role, tasks in zip(ROLES, given, strict=True)
    }


def _listed_roles(owned: Owned) -> str:
    listed = {role: _listed(owned.get(role, {})) for role in ROLES}
    return " ".join(f"{role} {listed[role]}" if role != "active" else listed[role] for role in ROLES if listed[role])


def _listed(tasks: dict[str, list[int]]) -> str:
    return ",".join(f"{each}_{partition}" for each in sorted(tasks) for partition in sorted(tasks[each]))
