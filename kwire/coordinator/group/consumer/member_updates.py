"""Update of a consumer group by one member: subscription, group epoch, target assignment, reconciliation.

ConsumerGroupHeartbeat and JoinGroup of a classic member take the same steps. Each step adds the records that it needs.
The group itself changes when the records are replayed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from kwire.chunks import Pieces, at_once
from kwire.cluster.metadata.image import TopicImage
from kwire.coordinator.group.assignors.assignors import assignor
from kwire.coordinator.group.consumer import records
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.consumer.reconciliation import Reconciliation
from kwire.coordinator.group.consumer.regexes import RegexSearch, compiled_regex
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig, ConsumerGroupSettings
from kwire.coordinator.group.consumer.timeouts import ConsumerTimeouts
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.modern.assignor import Assign, AssignmentInput, MemberSubscription
from kwire.coordinator.group.modern.background_assignments import BackgroundAssignments, is_large
from kwire.coordinator.group.modern.target_assignment import FIRST_EPOCH, NOTHING, Partitions
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.wall_time import is_over
from kwire.coordinator.shard import Write

logger = logging.getLogger(__name__)

Change = Write[GroupRecord, None]
REGEX_REFRESH_INTERVAL_MS_MIN = 10_000
"""Minimum time between two searches for the topics of a group's regular expressions."""


@dataclass(slots=True, kw_only=True)
class MemberUpdate:
    """Update of one member, and the records of it so far."""

    group: ConsumerGroup
    before: ConsumerMember
    """The member as it is stored, or a new one."""
    after: ConsumerMember
    epoch: int
    """Group epoch after the update."""
    records: list[GroupRecord] = field(default_factory=list)
    has_subscription_changed: bool = False


class MemberUpdates:
    """Steps of the updates of one shard's consumer groups."""

    def __init__(
        self,
        environment: GroupEnvironment,
        config: Callable[[], ConsumerGroupConfig],
        timeouts: ConsumerTimeouts,
        newest_topics_version: Callable[[], int],
    ) -> None:
        """Create the steps; `newest_topics_version` returns the offset of the last metadata with new topics."""
        self._environment = environment
        self._config = config
        self._timeouts = timeouts
        self._newest_topics_version = newest_topics_version
        self._checked: WeakKeyDictionary[ConsumerGroup, tuple[Mapping[str, TopicImage], int]] = WeakKeyDictionary()
        """The topics whose hash was compared last, and the epoch that followed."""
        self._searches: dict[str, RegexSearch] = {}
        self._assignments = BackgroundAssignments(
            environment.timers,
            find=self._find_stored,
            compute=self._compute_stored,
            target_records=self._target_records,
        )

    # --- subscription

    def subscribe(
        self, update: MemberUpdate, *, allows_topic: Callable[[str], bool], bumps_unresolved: bool = False
    ) -> None:
        """Store the member's metadata, and bump the group epoch if its subscription or the topics have changed.

        `bumps_unresolved` is True for classic members, of which any change of a regular expression bumps the epoch.
        Raises INVALID_REGULAR_EXPRESSION.
        """
        group, before, after = update.group, update.before, update.after
        names_changed = False
        if after != before:
            update.records.append(records.member_record(group.group_id, after))
            names_changed = after.subscribed_topic_names != before.subscribed_topic_names
        regex_changed, is_resolved = self._update_regexes(update, allows_topic)
        update.has_subscription_changed = names_changed or regex_changed
        bumps = names_changed or is_resolved or (bumps_unresolved and regex_changed)
        if bumps or self._is_outdated(group):
            self._bump_epoch_if_needed(update, is_forced=bumps)

    def _is_outdated(self, group: ConsumerGroup) -> bool:
        """Return True if the topics' hash must be compared: the metadata have changed, or a write has failed."""
        checked = self._checked.get(group)
        return checked is None or checked[0] is not self._environment.image().topics or group.epoch < checked[1]

    def _bump_epoch_if_needed(self, update: MemberUpdate, *, is_forced: bool) -> None:
        group, environment = update.group, self._environment
        image = environment.image()
        metadata_hash = environment.hashes.of_group(_topics_after(update), image)
        if is_forced or metadata_hash != group.metadata_hash:
            update.epoch = group.epoch + 1
            update.records.append(records.epoch_record(group.group_id, update.epoch, metadata_hash))
            logger.info("group %s: the epoch is now %d", group.group_id, update.epoch)
        self._checked[group] = (image.topics, update.epoch)
        if group.has_old_metadata_record:
            update.records.append(records.old_metadata_tombstone(group.group_id))

    # --- regular expressions

    def _update_regexes(self, update: MemberUpdate, allows_topic: Callable[[str], bool]) -> tuple[bool, bool]:
        """Return True if the member's regular expression changed, and True if a new assignment can use the new one."""
        group, old, new = update.group, update.before.regex, update.after.regex
        has_changed = update.before.subscribed_topic_regex != update.after.subscribed_topic_regex
        is_resolved = needs_search = False
        if has_changed:
            if old is not None and group.count_regex_subscribers(old) == 1:
                update.records.append(records.regex_tombstone(group.group_id, old))
            if new is None:
                is_resolved = old is not None
            elif group.count_regex_subscribers(new) == 0:
                compiled_regex(new)
                needs_search = True
            else:
                is_resolved = new in group.resolved
        if needs_search or group.has_regexes:
            self._search_topics_if_due(update, allows_topic, is_needed=needs_search)
        return has_changed, is_resolved

    def _search_topics_if_due(
        self, update: MemberUpdate, allows_topic: Callable[[str], bool], *, is_needed: bool
    ) -> None:
        group, environment = update.group, self._environment
        last = next(iter(group.resolved.values()), None)
        now_ms = environment.clock.wall_ms()
        if group.group_id in self._searches:
            return
        if last is not None and not is_over(
            REGEX_REFRESH_INTERVAL_MS_MIN + 1, since_ms=last.timestamp_ms, now_ms=now_ms
        ):
            return
        subscribers = _regexes_after(update)
        is_needed = (
            is_needed
            or len(subscribers) != len(group.resolved)
            or (0 if last is None else last.version) < self._newest_topics_version()
            or (
                last is not None
                and is_over(self._config().regex_refresh_interval_ms + 1, since_ms=last.timestamp_ms, now_ms=now_ms)
            )
        )
        if is_needed and subscribers:
            search = RegexSearch(environment.image(), list(subscribers), allows_topic, now_ms)
            self._searches[group.group_id] = search
            self._continue_search(group.group_id, search)

    def _continue_search(self, group_id: str, search: RegexSearch) -> None:
        self._environment.timers.schedule(("regex", group_id), 0, partial(self._search_step, group_id, search))

    def _search_step(self, group_id: str, search: RegexSearch) -> Change | None:
        if not search.step():
            self._continue_search(group_id, search)
            return None
        del self._searches[group_id]
        group = self._environment.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        changed = self._resolved_records(group, search.found())
        return Write(answer=None, records=changed) if changed else None

    def _resolved_records(self, group: ConsumerGroup, found: Mapping[str, ResolvedRegex]) -> list[GroupRecord]:
        """Return records of the topics that were found, and of a new epoch if they or their metadata have changed."""
        environment = self._environment
        topics, matches = group.topic_subscribers, group.regex_matches
        has_changed = False
        written: list[GroupRecord] = []
        for regex, resolved in found.items():
            if group.count_regex_subscribers(regex) == 0:
                continue
            before = group.resolved.get(regex)
            if (frozenset() if before is None else before.topics) != resolved.topics:
                has_changed = True
                if before is not None:
                    matches.subtract(before.topics)
                matches.update(resolved.topics)
            written.append(records.regex_record(group.group_id, regex, resolved))
        image = environment.image()
        metadata_hash = environment.hashes.of_group(topics.keys() | (+matches).keys(), image)
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            written.append(records.epoch_record(group.group_id, epoch, metadata_hash))
            self._checked[group] = (image.topics, epoch)
            logger.info("group %s: the epoch is now %d, for its regular expressions", group.group_id, epoch)
        return written

    # --- target assignment

    def assign(self, update: MemberUpdate) -> tuple[int, Partitions]:
        """Compute the target assignment if it is older than the group; return its epoch, and the member's target.

        A large one is computed in the background. Until then the last target holds.
        """
        group = update.group
        if group.target.epoch >= update.epoch or not self._may_compute(group):
            return group.target.epoch, group.target_of(update.after)
        if is_large(len(group.members) + 1, _topics_after(update), self._environment.image().topics):
            self._assignments.begin(group.group_id)
            if group.target.epoch < FIRST_EPOCH:
                # A member at epoch 0 would join again and again, so the group begins with an empty target.
                update.records.append(records.target_metadata_record(group.group_id, FIRST_EPOCH, 0))
                return FIRST_EPOCH, NOTHING
            return group.target.epoch, group.target_of(update.after)
        given = self._assignment_input(update)
        computed = at_once(self._assignor_of(group, update.before, update.after)(given))
        update.records += self._target_records(group, update.epoch, given.members, computed)
        return update.epoch, computed.get(update.after.member_id, NOTHING)

    def _may_compute(self, group: ConsumerGroup) -> bool:
        """Return True if the last assignment is old enough (KIP-1263), and none is being computed."""
        if self._assignments.is_running(group.group_id):
            return False
        interval_ms = self._environment.configs.of(group.group_id, ConsumerGroupSettings).assignment_interval_ms
        return is_over(interval_ms, since_ms=group.target.timestamp_ms, now_ms=self._environment.clock.wall_ms())

    def _assignor_of(self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> Assign:
        return assignor(group.preferred_assignor(before, after) or self._config().assignor_names[0])

    def _assignment_input(self, update: MemberUpdate) -> AssignmentInput:
        group, after = update.group, update.after
        topics = self._environment.image().topics
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        """Topic ids by subscription: most members have the same one."""

        def subscription(member: ConsumerMember, target: Partitions) -> MemberSubscription:
            names = group.topics_of(member)
            if names not in ids:
                ids[names] = frozenset(topics[name].topic_id for name in names if name in topics)
            return MemberSubscription(ids[names], target, member.instance_id, member.rack_id)

        members = {
            member.member_id: subscription(member, group.target.of(member.member_id))
            for member in group.members.values()
        }
        replaced = group.static_member(after.instance_id)
        if replaced is not None and replaced.member_id != after.member_id:
            del members[replaced.member_id]
        members[after.member_id] = subscription(after, group.target_of(after))
        subscribed = {topic_id for topic_ids in ids.values() for topic_id in topic_ids}
        image = self._environment.image()
        return AssignmentInput(
            members=members,
            is_homogeneous=_is_homogeneous(update, len(members)),
            owners=group.target.owners,
            partition_counts={
                topic_id: len(topic.partitions)
                for topic_id in subscribed
                if (topic := image.topic_by_id(topic_id)) is not None
            },
            topic_names=image.topic_names,
        )

    def _target_records(
        self, group: ConsumerGroup, epoch: int, member_ids: Iterable[str], computed: Mapping[str, Partitions]
    ) -> list[GroupRecord]:
        group_id, before = group.group_id, group.target.by_member
        changed = [
            records.target_record(group_id, member_id, computed.get(member_id, NOTHING))
            for member_id in member_ids
            if before.get(member_id) != computed.get(member_id, NOTHING)
        ]
        return [*changed, records.target_metadata_record(group_id, epoch, self._environment.clock.wall_ms())]

    # --- target assignment in the background

    def _find_stored(self, group_id: str) -> ConsumerGroup | None:
        group = self._environment.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _compute_stored(self, group: ConsumerGroup) -> Pieces[dict[str, Partitions]]:
        """Return the target of each member of a group as it is stored."""
        member = next(iter(group.members.values()))
        unchanged = MemberUpdate(group=group, before=member, after=member, epoch=group.epoch)
        return self._assignor_of(group, member, member)(self._assignment_input(unchanged))

    # --- reconciliation

    def reconcile(
        self, update: MemberUpdate, target_epoch: int, target: Partitions, owned: Collection[Any] | None
    ) -> ConsumerMember:
        """Return the member after the next step towards its target; `owned` is what its client reports, or None."""
        group, member = update.group, update.after
        if not update.has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        topics = self._environment.image().topics
        reconciliation = Reconciliation(
            group,
            member,
            target_epoch=target_epoch,
            target=target,
            subscribed_topic_ids={topics[name].topic_id for name in group.topics_of(member) if name in topics},
            owned=owned,
        )
        reconciled = reconciliation.next_member(has_subscription_changed=update.has_subscription_changed)
        if reconciled != member:
            update.records.append(records.assignment_record(group.group_id, reconciled))
            if not reconciled.uses_classic_protocol:
                self._timeouts.follow_revocation(group.group_id, reconciled)
        return reconciled


# --- the group as it will be after the update


def _regexes_after(update: MemberUpdate) -> Counter[str]:
    """Return the number of members that subscribe to each regular expression."""
    subscribers = update.group.regex_subscribers
    old, new = update.before.regex, update.after.regex
    if old != new:
        if old is not None:
            subscribers[old] -= 1
        if new is not None:
            subscribers[new] += 1
    return +subscribers


def _names_after(update: MemberUpdate) -> Counter[str]:
    """Return the number of members that subscribe to each topic by name."""
    names = update.group.topic_subscribers
    names.subtract(update.before.subscribed_topic_names)
    names.update(update.after.subscribed_topic_names)
    return +names


def _matches_after(update: MemberUpdate) -> Counter[str]:
    """Return the number of resolved regular expressions that match each topic."""
    group, old = update.group, update.before.regex
    matches = group.regex_matches
    if old is not None and old != update.after.regex and group.count_regex_subscribers(old) == 1:
        resolved = group.resolved.get(old)
        if resolved is not None:
            matches.subtract(resolved.topics)
    return +matches


def _topics_after(update: MemberUpdate) -> set[str]:
    return set(_names_after(update).keys() | _matches_after(update).keys())


def _is_homogeneous(update: MemberUpdate, member_count: int) -> bool:
    """Return True if all members subscribe to the same topics, by names or by one regular expression."""
    regexes, names, matches = _regexes_after(update), _names_after(update), _matches_after(update)
    if not regexes:
        counts = (names[topic] for topic in names.keys() | matches.keys())
        return all(count == member_count for count in counts)
    if next(iter(regexes.values())) != member_count:
        return False
    return not names and all(count == 1 for count in matches.values())
