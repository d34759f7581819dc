"""Removal of a consumer group's members: they leave, or are fenced by a timeout."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection

from kwire.coordinator.group.consumer import records
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord

logger = logging.getLogger(__name__)


def removal_records(
    environment: GroupEnvironment, group: ConsumerGroup, members: Collection[ConsumerMember]
) -> list[GroupRecord]:
    """Return the records that remove members, and bump the group epoch so that the others get their partitions."""
    group_id = group.group_id
    removed = [record for member in members for record in records.member_tombstones(group_id, member.member_id)]
    topics, matches = group.topic_subscribers, group.regex_matches
    for member in members:
        topics.subtract(member.subscribed_topic_names)
    for regex, count in Counter(member.regex for member in members if member.regex is not None).items():
        if group.count_regex_subscribers(regex) == count:
            removed.append(records.regex_tombstone(group_id, regex))
            if regex in group.resolved:
                matches.subtract(group.resolved[regex].topics)
    metadata_hash = environment.hashes.of_group((+topics).keys() | (+matches).keys(), environment.image())
    logger.info("group %s: the epoch is now %d, because members have left", group_id, group.epoch + 1)
    return [*removed, records.epoch_record(group_id, group.epoch + 1, metadata_hash)]
