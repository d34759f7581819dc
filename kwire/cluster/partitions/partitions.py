"""All partitions of this broker: apply committed metadata images, and create and delete logs accordingly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.configs.topic_configs import log_config
from kwire.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta, deleted_topics
from kwire.cluster.partitions.group_commit import GroupCommit
from kwire.cluster.partitions.in_sync import Peers
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.removals import REMOVED_AT_ONCE, Removals
from kwire.cluster.topic_names import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.jobs import Stage, run_here
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.protocol.error_codes import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

OPENED_AT_ONCE: Final = 8
"""Maximum new partitions that are opened at once when an image contains them."""
OPENED_IN_TURN: Final = 8
"""Further new partitions opened in one step: a device may take milliseconds for each, and blocks the event loop."""
CONFIGURED_AT_ONCE: Final = 64
"""Topics whose logs take their new configuration in one step.

A topic counts once more for each CONFIGURED_PARTITIONS of its partitions.
"""
CONFIGURED_PARTITIONS: Final = 64
_NO_LIMIT: Final = 2**62


class Partitions:
    """Partitions that this broker has replicas of, by topic and index. It leads some of them and follows the others."""

    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogManager,
        group_commit: GroupCommit,
        peers: Peers,
        settings_of: Callable[[MetadataImage], Mapping[str, Any]],
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._group_commit = group_commit
        self._peers = peers
        self._settings_of = settings_of
        self._by_topic: dict[str, dict[int, Partition]] = {}
        self._closed: dict[tuple[str, int], bool] = {}
        """Partitions whose logs could not be opened, and True if opening may be retried. Requests for them get a
        storage error; the other partitions are served."""
        self._damaged: set[tuple[str, int]] = set()
        """Closed partitions whose logs are damaged."""
        self._is_directory_lost = False
        """True if a missing log may be in a log directory that is not mounted, although no directory has failed."""
        self._unopened: dict[str, int] = {}
        """Topics with too many partitions to open at once, and the first index that was not tried. `open_more` opens
        them; `get` opens the requested one."""
        self.removals = Removals(logs, removed=self._removed)
        """Partitions that were deleted or moved to other brokers, until their logs are deleted."""
        self._outdated: dict[str, None] = {}
        """Topics whose logs still have an older configuration; `configure_more` sets the new one. A topic gets it at
        once if one of its partitions is requested or changes."""
        self._have_live_replicas_changed = False
        """True if brokers were registered, fenced or removed while there were outdated topics."""
        self._listener = PartitionListener()
        self._image = MetadataImage()

    # --- finding

    def find(self, topic: str, index: int, *, can_follow: bool = False) -> Partition:
        """Return a partition that this broker leads, or with `can_follow` follows. Raises KafkaError for all others."""
        partition = self.get(topic, index)
        if partition is None or not (partition.is_led or can_follow):
            raise KafkaError(self._why_not_here(topic, index, partition))
        if partition.log.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    def _open_requested(self, name: str, index: int) -> Partition | None:
        """Open a requested partition before its turn; None without a replica here, or if the log cannot be opened."""
        topic = self._image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        if self._broker_id not in topic.partitions[index].replicas or (name, index) in self._closed:
            return None
        return self._open(topic, index, self.config_of(name, self._image), can_create=True)

    def _why_not_here(self, topic: str, index: int, partition: Partition | None) -> ErrorCode:
        if (topic, index) in self._closed or (partition is not None and partition.log.failure is not None):
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._image.topics.get(topic)
        is_elsewhere = known is not None and 0 <= index < len(known.partitions)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def any_closed(self) -> bool:
        """True if there are partitions whose logs are not open."""
        return bool(self._closed)

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, led or followed; None if this broker has no replica of it or cannot open its log.

        Opens the log first, or applies the topic's new configuration, if that was left for later.
        """
        if topic in self._outdated:
            self._configure(topic)
        partitions = self._by_topic.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None and topic in self._unopened:
            return self._open_requested(topic, index)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        """Yield the partitions that are open now; the caller may open others meanwhile."""
        for partitions in list(self._by_topic.values()):
            yield from list(partitions.values())

    def wake_failed(self) -> None:
        """Make the waiters of partitions with an offline log check again."""
        for partition in self:
            if partition.log.failure is not None:
                partition.wake()

    # --- changes of the metadata

    def start(self, image: MetadataImage, listener: PartitionListener, *, is_directory_lost: bool = False) -> None:
        """Apply the committed image once, at start.

        Stray logs (not of this broker, by the metadata) are renamed to -stray.

        From now on, the listener is called with every change of the partitions.

        Logs that the stages of loading() have not opened are opened immediately. A missing log directory may contain
        logs that the other directories lack. Such a partition stays closed while its replica may have records that no
        other replica has.
        """
        self._image = image
        self._listener = listener
        self._is_directory_lost = is_directory_lost
        run_here(self.loading(image))
        for log in list(self._logs.logs()):
            if not self._has_replica(image.topics.get(log.topic), log):
                self._rename_stray(log)
        for topic_image in image.topics.values():
            self._apply_topic(
                topic_image, image, can_create=not (is_directory_lost or self._logs.directories.any_offline)
            )

    def loading(self, image: MetadataImage, *, at_once: int = 1) -> Iterator[Stage]:
        """Return the stages that open the logs on disk before start(), `at_once` of them at the same time.

        The metadata may change meanwhile.
        """
        config_of = cache(partial(self.config_of, image=image))
        return self._logs.loading(config_of, partial(_topic_id, image), at_once=at_once).stages()

    def _rename_stray(self, log: PartitionLog) -> None:
        place, why = f"{log.topic}-{log.partition}", "not a replica of this broker in the metadata"
        try:
            path = self._logs.set_aside(log.topic, log.partition)
        except DiskFailure as failure:
            logger.error("%s: %s; cannot rename its directory to -stray: %s", place, why, failure)  # noqa: TRY400 no traceback needed
        else:
            logger.warning("%s: %s; renamed to %s", place, why, path)

    def _has_replica(self, topic: TopicImage | None, log: PartitionLog) -> bool:
        """Return True if a log that was found belongs to a partition that this broker has a replica of."""
        if topic is None or log.topic_id != topic.topic_id or log.partition >= len(topic.partitions):
            return False
        return self._broker_id in topic.partitions[log.partition].replicas

    def open_closed(self, image: MetadataImage) -> None:
        """Retry the logs that could not be opened, for example on a full disk: some now, the others by `open_more`."""
        for name in {name for (name, _), can_be_tried in self._closed.items() if can_be_tried}:
            if name in image.topics:
                self._unopened.setdefault(name, 0)
        self.open_more()
        self._notify_unfinished()

    def apply(self, delta: MetadataDelta) -> None:
        """Apply a committed change of the metadata."""
        self._image = new = delta.after
        if delta.has_config_changes:
            # Configurations first: with a new in-sync set, the new min.insync.replicas must already apply.
            self._reconfigure(delta)  # _apply_topic and _notify_leaders handle the topics left for later
        if changed := delta.changed_topics():
            deleted = deleted_topics(changed)
            for gone in deleted:
                self._remove(gone)
            self.removals.notify(INTERNAL_TOPICS)  # coordinators must be notified before a topic of that name returns
            is_more = self.removals.do_more()
            room = OPENED_AT_ONCE
            for _, topic in changed:
                if topic is not None:
                    # A topic that reuses a name waits until the logs of the earlier topic are gone.
                    room -= self._apply_topic(topic, new, room=0 if self.removals.has_waiting(topic.name) else room)
            self.removals.notify(INTERNAL_TOPICS)  # partitions that have moved to other brokers
            self.removals.do_more(room=0 if is_more else REMOVED_AT_ONCE)
            # Coordinators write tombstones for deleted topics, after they were notified of all changes of leaders.
            for gone in deleted:
                self._listener.topic_deleted(gone)
        if delta.has_broker_changes:
            self._notify_leaders()
        self._notify_unfinished()

    def _notify_unfinished(self) -> None:
        if self._outdated or self._unopened or not self.removals.is_done:
            self._listener.more_work_found()

    def _notify_leaders(self) -> None:
        """Recheck the high watermark of led partitions after a change of brokers.

        Postpone it while topics are outdated.
        """
        self._have_live_replicas_changed = bool(self._outdated)
        if not self._outdated:
            for partition in self:
                partition.live_replicas_changed()

    def open_more(self) -> bool:
        """Try to open some of the partitions that are not open yet; return True if others are left."""
        room = OPENED_IN_TURN
        while self._unopened and room > 0:
            name, first = next(iter(self._unopened.items()))
            del self._unopened[name]
            if (topic := self._image.topics.get(name)) is not None:
                room -= self._open_from(first, topic, self._image, room=room)
        return bool(self._unopened)

    def config_of(self, topic: str, image: MetadataImage) -> LogConfig:
        """Return the log configuration of a topic, from its own overrides and the broker's settings.

        The transaction log is always flushed before a write is answered, whatever flush.messages says.
        """
        config = log_config(image.config_of(ConfigResourceType.TOPIC, topic), self._settings_of(image))
        return replace(config, flush_messages=1) if topic == TRANSACTION_STATE_TOPIC else config

    def _apply_topic(
        self, topic: TopicImage, image: MetadataImage, *, can_create: bool = True, room: int = _NO_LIMIT
    ) -> int:
        """Apply a topic's image, and try to open at most `room` new partitions; return how many were tried."""
        if topic.name in self._outdated:
            self._configure(topic.name)
        partitions = self._by_topic.setdefault(topic.name, {})
        moved: dict[int, Partition] = {}
        first = len(topic.partitions)
        for index, partition_image in enumerate(topic.partitions):
            present = partitions.get(index)
            if present is not None and present.image is partition_image:
                continue  # most partitions of a wide topic have not changed
            if self._broker_id not in partition_image.replicas:
                if present is not None:
                    moved[index] = partitions.pop(index)
                elif (topic.name, index) in self._closed:
                    self._drop_closed(topic.name, [index])
            elif present is not None:
                self._update(present, partition_image, is_led=partition_image.leader == self._broker_id)
            else:
                first = min(first, index)
        self.removals.add(topic.name, moved)
        return self._open_from(first, topic, image, can_create=can_create, room=room)

    def _open_from(
        self, first: int, topic: TopicImage, image: MetadataImage, *, can_create: bool = True, room: int
    ) -> int:
        """Try to open at most `room` closed partitions from index `first` on; return how many were tried.

        Partitions that stay closed count: on a full disk every partition of a wide topic stays closed.
        """
        self._unopened.pop(topic.name, None)
        partitions = self._by_topic.setdefault(topic.name, {})
        config: LogConfig | None = None
        tried = 0
        for index in range(first, len(topic.partitions)):
            if index in partitions or self._broker_id not in topic.partitions[index].replicas:
                continue
            if tried >= room:
                self._unopened[topic.name] = index
                break
            tried += 1
            config = config or self.config_of(topic.name, image)
            self._open(topic, index, config, can_create=can_create)
        return tried

    def _open(self, topic: TopicImage, index: int, config: LogConfig, *, can_create: bool) -> Partition | None:
        """Begin to lead or follow a partition; return None if its log stays closed."""
        image = topic.partitions[index]
        is_led = image.leader == self._broker_id
        has_lost_directory = self._is_directory_lost and not self._logs.directories.any_offline
        can_start_empty = has_lost_directory and not _may_have_unique_records(image, self._broker_id)
        log = self._open_log(topic, index, config, can_create=can_create, can_start_empty=can_start_empty)
        if log is None:
            return None
        partition = self._by_topic.setdefault(topic.name, {})[index] = Partition(
            topic=topic.name,
            topic_id=topic.topic_id,
            index=index,
            image=image,
            log=log,
            group_commit=self._group_commit,
            peers=self._peers,
            is_led=is_led,
            high_watermark=self._logs.directories.checkpointed_high_watermark(topic.name, index),
        )
        self._listener.partition_opened(partition)
        self._listener.leader_epoch_changed(partition)
        if is_led:
            self._listener.role_changed(partition)
        return partition

    def _update(self, partition: Partition, image: PartitionImage, *, is_led: bool) -> None:
        was_led, was = partition.is_led, partition.image
        partition.update(image, is_led=is_led)
        if (was.leader, was.leader_epoch) != (image.leader, image.leader_epoch):
            self._listener.leader_epoch_changed(partition)
        if was_led != is_led:
            self._listener.role_changed(partition)
        self._listener.partition_updated(partition)

    def _open_log(
        self, topic: TopicImage, index: int, config: LogConfig, *, can_create: bool, can_start_empty: bool
    ) -> PartitionLog | None:
        """Return the partition's log; None if it stays closed, with the reason logged once."""
        key = (topic.name, index)
        if not self._closed.get(key, True) and not can_start_empty:
            if key in self._damaged:  # other replicas may be able to lead by now
                self._listener.partition_closed(topic, index, True)
            return None  # until the next start
        try:
            self.removals.finish(topic.name, index)
            if not (can_create or can_start_empty) and self._logs.get(topic.name, index) is None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in a log directory that is missing")
            log = self._logs.get_or_create(topic.name, index, config, topic.topic_id)
            log.update_config(config)  # it may have been opened with an older image
        except (KafkaError, DiskFailure) as error:
            if key not in self._closed:
                logger.error("%s-%d stays closed: %s", topic.name, index, error)  # noqa: TRY400 no traceback needed
            is_damaged = isinstance(error, CorruptLogError)
            self._closed[key] = can_create and not is_damaged
            if is_damaged:
                self._damaged.add(key)
            if self._closed[key] or is_damaged:
                self._listener.partition_closed(topic, index, is_damaged)
            return None
        self._closed.pop(key, None)
        return log

    def _removed(self, partition: Partition) -> None:
        self._listener.partition_removed(partition)

    def _remove(self, topic: TopicImage) -> None:
        """Stop serving a deleted topic."""
        self.removals.add(topic.name, self._by_topic.pop(topic.name, {}))
        if self._closed:
            self._drop_closed(topic.name, range(len(topic.partitions)))

    def _drop_closed(self, topic: str, indexes: Iterable[int]) -> None:
        """Remove closed logs whose partitions this broker no longer has."""
        closed = [index for index in indexes if self._closed.pop((topic, index), None) is not None]
        self._damaged.difference_update((topic, index) for index in closed)
        self.removals.add_closed(topic, closed)

    def _reconfigure(self, delta: MetadataDelta) -> None:
        if self._settings_of(delta.before) != self._settings_of(delta.after):
            names = list(self._by_topic)
        else:
            topic = ConfigResourceType.TOPIC
            names = [name for resource_type, name in delta.changed_configs() if resource_type == topic]
        self._outdated.update(dict.fromkeys(name for name in names if name in self._by_topic))
        self.configure_more()

    def configure_more(self) -> bool:
        """Give some of the logs their new configuration; return True if others are left."""
        room = CONFIGURED_AT_ONCE
        while self._outdated and room > 0:
            name = next(iter(self._outdated))
            room -= 1 + self._configure(name) // CONFIGURED_PARTITIONS
        if self._have_live_replicas_changed and not self._outdated:
            self._notify_leaders()
        return bool(self._outdated)

    def _configure(self, name: str) -> int:
        """Give the logs of a topic their newest configuration; return how many there are."""
        del self._outdated[name]
        partitions = self._by_topic.get(name)
        if not partitions:
            return 0
        config = self.config_of(name, self._image)
        for partition in partitions.values():
            partition.log.update_config(config)
        return len(partitions)


def _may_have_unique_records(image: PartitionImage, broker_id: int) -> bool:
    """Return True if a replica may have records that no other replica has."""
    known = (image.isr, image.eligible_leader_replicas, image.last_known_elr)
    return any(broker_id in brokers for brokers in known)


def _topic_id(image: MetadataImage, name: str) -> UUID | None:
    topic = image.topics.get(name)
    return None if topic is None else topic.topic_id
