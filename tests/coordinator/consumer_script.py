"""Runner of the consumer group scripts: the commands of the group scripts, and those of KIP-848.

    > beat a                                  ConsumerGroupHeartbeat at the member's epoch, with what it owns
    > beat a topics=t,u                       a full request; others: regex= epoch= member= instance= rack= assignor=
                                              rebalance= owned=t-0,t-1 (or owned=- for none, owned=* for null) version=
    > leave-group a                           with epoch -1; epoch=-2 for a static member that will return
    > consumers                               the group with its members, as ConsumerGroupDescribe returns it
    > create-topic v=4                        and > grow-topic t=5
    > setting group.consumer.max.size=2       settings of the broker; group:consumer.session.timeout.ms=... of the group

A member owns what its last response assigned, and stops owning what it no longer contains.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any
from uuid import UUID

from kwire.chunks import at_once
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigResourceType, parse
from kwire.cluster.configs.settings import read_settings
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.records import GroupRecord
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeAssignment
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tests.coordinator import group_script
from tests.coordinator.clients import client_named
from tests.coordinator.world import topic_image

OLD_KEYS = ("GroupMetadataKey", "OffsetCommitKey")


class ScriptRunner(group_script.ScriptRunner):
    """State of a running script and its observed results."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, loop)
        self._owned: dict[str, dict[str, list[int]]] = {}

    # --- heartbeats

    def _beat(self, names: list[str], options: dict[str, str]) -> None:
        client = self._client(names[0])
        client.instance = options.get("instance", client.instance)
        joins = "topics" in options or "regex" in options
        epoch = int(options.get("epoch", 0 if client.generation < 0 else client.generation))
        topics, regex = options.get("topics"), options.get("regex")
        version = int(options.get("version", "1"))
        client.member_id = options.get("member", client.member_id or ("" if version == 0 else client.name))
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.get("group", group_script.GROUP),
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance,
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("rebalance", "60000" if joins else "-1")),
            subscribed_topic_names=None if topics is None else [each for each in topics.split(",") if each],
            subscribed_topic_regex=regex,
            server_assignor=options.get("assignor"),
            topic_partitions=self._reported(client.name, options.get("owned"), epoch),
        )
        answer = self.world.groups.heartbeat_of_consumer_group(request, client_named(client.name), version=version)
        self._when(client, answer, self._answered)

    def _leave_group(self, names: list[str], options: dict[str, str]) -> None:
        self._beat(names, {"epoch": "-1", "owned": "*", **options})

    def _reported(self, name: str, text: str | None, epoch: int) -> list[ConsumerGroupHeartbeatTopicPartitions] | None:
        """Return what a client reports to own: what it was assigned, unless the script says otherwise."""
        if text == "*":
            return None
        owned = {} if epoch == 0 and text is None else self._owned.get(name, {})
        if text is not None:
            owned = {}
            for each in () if text == "-" else text.split(","):
                topic, _, index = each.partition("-")
                owned.setdefault(topic, []).append(int(index))
        return [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=self._topic_id(topic), partitions=indexes)
            for topic, indexes in owned.items()
        ]

    def _answered(self, client: Any, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code:
            message = f" ({response.error_message})" if response.error_message else ""
            self._see(f"{client.name}: {group_script._code(response.error_code)}{message}")
            return
        client.member_id, client.generation = response.member_id, response.member_epoch
        assigned = ""
        if response.assignment is not None:
            owned = {self._topic_name(each.topic_id): each.partitions for each in response.assignment.topic_partitions}
            self._owned[client.name] = owned
            assigned = " " + (_listed(owned) or "nothing")
        self._see(f"{client.name}: epoch {response.member_epoch}{assigned}")

    # --- administration

    def _consumers(self, names: list[str], _: dict[str, str]) -> None:
        group = at_once(self.world.groups.describe_consumer_group(names[0] if names else group_script.GROUP))
        if group.error_code:
            self._see(f"{group_script._code(group.error_code)} ({group.error_message})")
            return
        self._see(f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch}")
        for member in group.members:
            target = self._assignment(member.target_assignment)
            held = self._assignment(member.assignment)
            more = "" if held == target else f" target={target or 'nothing'}"
            kind = " classic" if member.member_type == 0 else ""
            self._see(f"  {member.member_id}{kind} epoch={member.member_epoch} {held or 'nothing'}{more}")

    def _assignment(self, assignment: ConsumerGroupDescribeAssignment) -> str:
        return _listed({each.topic_name: each.partitions for each in assignment.topic_partitions})

    # --- world

    def _setting(self, _: list[str], options: dict[str, str]) -> None:
        for name, value in options.items():
            if name.startswith("group:"):
                resource = (ConfigResourceType.GROUP, group_script.GROUP)
                overrides = {**self.world.image.configs.get(resource, {}), name.removeprefix("group:"): value}
                configs = {**self.world.image.configs, resource: overrides}
                self.world.image = dataclasses.replace(self.world.image, configs=configs)
            else:
                self.world.settings = {**self.world.settings, name: parse(BROKER_KEYS[name], value)}
        self.world.consumer_config = read_settings(ConsumerGroupConfig, self.world.settings)

    def _create_topic(self, _: list[str], options: dict[str, str]) -> None:
        for name, count in options.items():
            self.world.change_topic(topic_image(name, 200 + len(self.world.image.topics), int(count)))

    def _grow_topic(self, _: list[str], options: dict[str, str]) -> None:
        for name, count in options.items():
            topic = self.world.image.topics[name]
            self.world.change_topic(topic_image(name, topic.topic_id.int, int(count)))

    def _records(self, _: list[str], __: dict[str, str]) -> None:
        for record in self.world.new_records():
            old = type(record.key).__name__ in OLD_KEYS
            self._see(group_script._described(record) if old else self._described_record(record))

    def _described_record(self, record: GroupRecord) -> str:
        kind = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        member = f" {record.key.member_id}" if hasattr(record.key, "member_id") else ""
        regex = f" {record.key.regular_expression}" if hasattr(record.key, "regular_expression") else ""
        return f"{kind}{member}{regex}{' tombstone' if record.value is None else self._values(record.value)}"

    def _values(self, value: Any) -> str:
        numbers = ("epoch", "assignment_epoch", "member_epoch", "previous_member_epoch", "state")
        shown = [f"{field}={getattr(value, field)}" for field in numbers if hasattr(value, field)]
        for field in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
            if getattr(value, field, None):
                held = {self._topic_name(each.topic_id): each.partitions for each in getattr(value, field)}
                shown.append(f"{field}={_listed(held)}")
        texts = ("topics", "subscribed_topic_names", "subscribed_topic_regex", "instance_id")
        shown += [f"{field}={getattr(value, field)}" for field in texts if getattr(value, field, None)]
        return "".join(f" {each}" for each in shown)

    # --- topics

    def _topic_id(self, name: str) -> UUID:
        topic = self.world.image.topics.get(name)
        return UUID(int=999) if topic is None else topic.topic_id

    def _topic_name(self, topic_id: UUID) -> str:
        return self.world.image.topic_names.get(topic_id, f"id{topic_id.int}")


def _listed(owned: dict[str, list[int]]) -> str:
    return ",".join(f"{topic}-{index}" for topic in sorted(owned) for index in sorted(owned[topic]))
