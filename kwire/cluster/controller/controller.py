"""The controller: turns requests into metadata records, appends them, and answers when they are committed.

It decides on the newest image, which may have records that are not durable yet. Their effects stay hidden until they
are durable: an answer waits for MetadataLog.committed, and brokers receive committed images only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from kwire.chunks import CHUNK, Pieces, at_once, chunks, in_turns, mapped, turn
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.eligible_leaders import plan_safe_min_insync
from kwire.cluster.controller.limits import check_records
from kwire.cluster.controller.long_plans import ATTEMPTS_MAX
from kwire.cluster.controller.plans.acls import check_filter, check_new_acl, matching_ids
from kwire.cluster.controller.plans.client_quotas import Alterations, plan_client_quotas
from kwire.cluster.controller.plans.configs import Change, changed, plan_replacement
from kwire.cluster.controller.plans.features import FeatureUpdate, plan_features
from kwire.cluster.controller.plans.scram import ScramAlteration, plan_scram, rejections
from kwire.cluster.controller.plans.topics import (
    CreatedTopic,
    NewTopic,
    TopicDefaults,
    check_total,
    is_plan_valid,
    plan_partitions,
    plan_removal,
    plan_topic,
)
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.metadata.acl_records import acl_record
from kwire.cluster.metadata.client_quotas import QuotaEntity, entity_text
from kwire.cluster.metadata.features import KRAFT_VERSION
from kwire.cluster.metadata.image import ConfigResource, MetadataImage, TopicImage
from kwire.cluster.metadata.prepared_records import PreparedRecords, prepare, prepare_in_pieces
from kwire.cluster.raft.metadata_log import MetadataLog, Written
from kwire.cluster.security.acls import Acl, AclFilter
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kwire.seams import RandomSource

REQUESTS_AT_ONCE = 64
"""Number of elements of one request that are planned before other tasks get a turn."""

R = TypeVar("R")

Plan = tuple[Sequence[Any] | PreparedRecords, Any]
"""Records that are written for one element of a request, and its result for the client."""

Count = Callable[[int], None]
"""Function called with the number of partitions before a change; raises KafkaError above the quota."""


def _no_quota(partitions: int) -> None:
    """Allow any number of changes."""


def _is_short(_: object) -> bool:
    return False


def _rejection(acl: Acl) -> KafkaError | None:
    try:
        check_new_acl(acl)
    except KafkaError as error:
        return error.without_traceback()
    return None


def _has_patterns(element: tuple[ConfigResource, object]) -> bool:
    """Return True if checking the configuration may take milliseconds: it may have regular expressions."""
    (kind, _), _ = element
    return kind == ConfigResourceType.CLIENT_METRICS


class Controller:
    """The active controller's API for clients. Other nodes raise or return NOT_CONTROLLER."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        random_source: RandomSource,
        defaults: TopicDefaults,
    ) -> None:
        self._log = metadata_log
        self._random_source = random_source
        self._defaults = defaults

    @property
    def image(self) -> MetadataImage:
        """Newest image, committed or not, on which decisions are made."""
        return self._log.newest_image

    async def create_topics(
        self, requested: Sequence[NewTopic], *, validate_only: bool, count: Count = _no_quota
    ) -> list[CreatedTopic | KafkaError]:
        """Create topics; a topic that cannot be created does not affect the others."""

        async def plan(element: NewTopic) -> tuple[PreparedRecords, CreatedTopic]:
            def steps(image: MetadataImage) -> Pieces[tuple[list[Any], CreatedTopic]]:
                topic_id = self._random_source.uuid()
                return plan_topic(
                    image, element, topic_id=topic_id, defaults=self._defaults, random_source=self._random_source
                )

            records, created = await self._prepared(element.name, steps)
            count(created.num_partitions)
            return records, created

        try:
            await in_turns(check_total(requested, defaults=self._defaults))
        except KafkaError as error:
            return [error] * len(requested)
        return await self._each(requested, plan, validate_only=validate_only)

    async def create_partitions(
        self,
        requested: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool,
        count: Count = _no_quota,
    ) -> list[None | KafkaError]:
        """Add partitions to topics, given as (name, new count, replicas of each new partition or None)."""

        async def plan(element: tuple[str, int, Sequence[Sequence[int]] | None]) -> tuple[PreparedRecords, None]:
            name, _, _ = element

            def steps(image: MetadataImage) -> Pieces[tuple[list[Any], None]]:
                return (yield from plan_partitions(image, *element, random_source=self._random_source)), None

            records, _ = await self._prepared(name, steps)
            count(len(records))
            return records, None

        return await self._each(requested, plan, validate_only=validate_only)

    async def delete_topics(self, topics: Sequence[TopicImage], *, count: Count = _no_quota) -> list[None | KafkaError]:
        """Delete topics of the newest image."""

        def plan(topic: TopicImage) -> tuple[list[Any], None]:
            if topic.topic_id not in self.image.topic_names:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            count(len(topic.partitions))
            return plan_removal(self.image, topic), None

        return await self._each(topics, plan, validate_only=False)

    async def alter_configs(
        self,
        changes: Sequence[tuple[ConfigResource, Sequence[Change]]],
        *,
        validate_only: bool,
        is_forwarded: bool = True,
    ) -> list[None | KafkaError]:
        """Change single keys of resources; check_changes must have accepted the changes."""

        async def plan(change: tuple[ConfigResource, Sequence[Change]]) -> tuple[list[Any], None]:
            resource, changes = change
            for _ in range(ATTEMPTS_MAX):
                before = self.image.config_of(*resource)
                after = await in_turns(changed(resource, before, changes))
                if self.image.config_of(*resource) == before:
                    break
            else:
                after = at_once(changed(resource, self.image.config_of(*resource), changes))
            return plan_replacement(
                self.image, resource, after, settings=self._defaults.current.values, is_forwarded=is_forwarded
            ), None

        return await self._each(changes, plan, validate_only=validate_only, takes_long=_has_patterns)

    async def replace_configs(
        self,
        requested: Sequence[tuple[ConfigResource, Mapping[str, str | None]]],
        *,
        validate_only: bool,
        is_forwarded: bool = True,
    ) -> list[None | KafkaError]:
        """Replace the whole configuration of resources."""

        def plan(element: tuple[ConfigResource, Mapping[str, str | None]]) -> tuple[list[Any], None]:
            return plan_replacement(
                self.image, *element, settings=self._defaults.current.values, is_forwarded=is_forwarded
            ), None

        return await self._each(requested, plan, validate_only=validate_only, takes_long=_has_patterns)

    async def alter_client_quotas(
        self,
        requested: Sequence[tuple[QuotaEntity, Sequence[tuple[str, float | None]]]],
        *,
        is_host: Callable[[str], bool],
        validate_only: bool,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set and remove quotas of entities, given as (key, new value or None). Return the errors by entity.

        An entity that is named twice gets the first change and an error for the second, as in Kafka.
        """
        seen: set[QuotaEntity] = set()

        def plan(element: tuple[QuotaEntity, Sequence[tuple[str, float | None]]]) -> tuple[list[Any], None]:
            entity, operations = element
            alterations: Alterations = dict(operations)
            is_repeated = entity in seen
            seen.add(entity)
            if is_repeated or len(alterations) < len(operations):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity_text(entity)}")
            return list(plan_client_quotas(self.image, entity, alterations, is_host=is_host)), None

        outcomes = await self._each(requested, plan, validate_only=validate_only)
        rejections: dict[QuotaEntity, KafkaError | None] = {}
        for some in chunks(zip(requested, outcomes, strict=True)):
            rejections |= {entity: outcome for (entity, _), outcome in some}
            if len(some) == CHUNK:
                await turn()
        return rejections

    async def alter_scram(self, requested: Sequence[ScramAlteration]) -> dict[str, KafkaError | None]:
        """Set and delete SCRAM credentials. Return the errors by user; a user may be named only once."""
        rejected = await in_turns(rejections(self.image, requested))

        def plan(alteration: ScramAlteration) -> tuple[list[Any], None]:
            if alteration.user in rejected:
                raise rejected[alteration.user].without_traceback()
            return plan_scram(self.image, alteration), None

        outcomes = await self._each(requested, plan, validate_only=False)
        return {each.user: outcome for each, outcome in zip(requested, outcomes, strict=True)}

    async def create_acls(self, requested: Sequence[Acl]) -> list[None | KafkaError]:
        """Store access control entries that do not exist yet, all in one batch; return the error of each, or None."""
        outcomes = await in_turns(mapped(requested, _rejection))
        accepted = {acl: None for acl, error in zip(requested, outcomes, strict=True) if error is None}

        def records() -> list[AccessControlEntryRecord]:
            known = self.image.acl_ids
            return [acl_record(self._random_source.uuid(), acl) for acl in accepted if acl not in known]

        await self._append_acls(records, len(accepted))
        return outcomes

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl] | KafkaError]:
        """Remove the access control entries that match filters, all in one batch; return those of each filter."""
        matching: dict[UUID, None] = {}
        outcomes: list[list[Acl] | KafkaError] = []
        for acl_filter in filters:
            try:
                check_filter(acl_filter)
            except KafkaError as error:
                outcomes.append(error.without_traceback())
                continue
            found = await in_turns(matching_ids(self.image, acl_filter))
            outcomes.append(list(found.values()))
            matching |= dict.fromkeys(found)
            await turn()

        def records() -> list[RemoveAccessControlEntryRecord]:
            known = self.image.acls
            return [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in matching if acl_id in known]

        await self._append_acls(records, len(matching))
        return outcomes

    async def _append_acls(self, records: Callable[[], Sequence[Any]], count: int) -> None:
        """Append what `records` returns for the newest image, at most `count` records. Raises KafkaError."""
        check_records(count)
        epoch = self._log.epoch
        for attempt in range(ATTEMPTS_MAX + 1):
            image = self.image
            steps = prepare_in_pieces(records(), image.features)
            prepared = await in_turns(steps) if attempt < ATTEMPTS_MAX else at_once(steps)
            if self.image is image:
                break
        if prepared.count:
            self._log.append(prepared)
        await self._log.committed(Written(self._log.newest_image.offset, epoch))

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, controller_id: int, validate_only: bool
    ) -> None:
        """Change feature levels, all of them or none. Raises KafkaError."""
        node = self._log.node
        kraft_version = next((update.level for update in updates if update.name == KRAFT_VERSION), None)
        if kraft_version is not None:
            self._plan_features(updates, controller_id)
            outcome = await node.upgrade_kraft_version(kraft_version, validate_only=validate_only)
            if outcome.error is not ErrorCode.NONE:
                raise KafkaError(outcome.error, outcome.text)

        def plan(_: None) -> tuple[list[Any], None]:
            records = self._plan_features(updates, controller_id)
            view = ControllerView(
                image=self.image, settings=self._defaults.current.at_start, controller_id=controller_id
            )
            after = view.after(records)
            is_first = after.is_elr_enabled and not view.is_elr_enabled
            return [*(plan_safe_min_insync(view) if is_first else ()), *records], None

        (rejection,) = await self._each([None], plan, validate_only=validate_only)
        if rejection is not None:
            raise rejection.without_traceback()

    def _plan_features(self, updates: Sequence[FeatureUpdate], controller_id: int) -> list[Any]:
        quorum = self._log.node.quorum
        kraft_version = quorum.history.kraft_version
        return list(
            plan_features(
                self.image,
                updates,
                controller_id=controller_id,
                kraft_version=kraft_version,
                static_voters=() if kraft_version else quorum.history.voters.ids,
            )
        )

    async def _prepared(
        self, name: str, steps: Callable[[MetadataImage], Pieces[tuple[list[Any], R]]]
    ) -> tuple[PreparedRecords, R]:
        """Return the encoded records of a plan for a topic, and its result for the client.

        Other requests are served between the steps. If they change the brokers, the features or the topic, the topic is
        planned again; after ATTEMPTS_MAX attempts, in one step. The caller must append the records before it awaits
        anything.
        """
        for _ in range(ATTEMPTS_MAX):
            await self._deleted(name)
            image = self.image
            records, result = await in_turns(steps(image))
            prepared = await in_turns(prepare_in_pieces(records, image.features))
            if is_plan_valid(image, self.image, name):
                return prepared, result
        await self._deleted(name)
        records, result = at_once(steps(self.image))
        return prepare(records, self.image.features), result

    async def _deleted(self, name: str) -> None:
        """Wait until the deletion of an earlier topic with the name, if there was one, is committed.

        The old topic's logs must be renamed before the new topic is known. After a crash in between, only a file that
        may be lost would distinguish the records of the two topics.
        """
        while name in self._log.image.topics and name not in self.image.topics:
            await self._log.committed(self._log.written)

    async def _each(
        self,
        requested: Sequence[Any],
        plan: Callable[[Any], Plan | Awaitable[Plan]],
        *,
        validate_only: bool,
        takes_long: Callable[[Any], bool] = _is_short,
    ) -> list[Any]:
        """Plan and append the elements of a request one by one, each on the newest image; wait once for all.

        An error, too, may be based on records that are not durable yet: it also waits, in the epoch of its decision. If
        this node no longer leads then, it is unknown which records will last, and NOT_CONTROLLER is raised for all.
        Each element costs a copy of what it changes, so that a long list yields to other tasks.
        """
        results: list[Any] = []
        epoch = self._log.epoch
        for number, element in enumerate(requested, 1):
            if takes_long(element) or number % REQUESTS_AT_ONCE == 0:
                await turn()
            try:
                planned = plan(element)
                records, result = await planned if isinstance(planned, Awaitable) else planned
                if records and not validate_only:
                    self._log.append(records)
            except KafkaError as error:
                if error.code is ErrorCode.NOT_CONTROLLER:
                    raise
                results.append(error.without_traceback())
                continue
            results.append(result)
        await self._log.committed(Written(self._log.newest_image.offset, epoch))
        return results
