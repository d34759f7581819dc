"""Rules for replicated partitions in every state of the metadata (R9, R11, R13), and for changes between states (R10,
R12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from tests.simulation.cluster_ledger import PartitionKey

MIN_INSYNC_REPLICAS = "min.insync.replicas"
RECOVERING = 1


def places(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """Yield all partitions."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def needed_in_sync(image: MetadataImage, topic: str, replicas: int) -> int:
    """Return the number of replicas that must be in sync, at most the number of replicas."""
    return min(_min_insync_replicas(image, topic), replicas)


def _min_insync_replicas(image: MetadataImage, topic: str) -> int:
    for resource in ((ConfigResourceType.TOPIC, topic), (ConfigResourceType.BROKER, "")):
        value = image.configs.get(resource, {}).get(MIN_INSYNC_REPLICAS)
        if value is not None:
            return int(value)
    return 1


def has_too_few(image: MetadataImage, topic: TopicImage, index: int) -> bool:
    """Return True if a partition has fewer in-sync replicas than required."""
    part = topic.partitions[index]
    return len(part.isr) < needed_in_sync(image, topic.name, len(part.replicas))


def changes(old: MetadataImage, new: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage, PartitionImage]]:
    """Yield changed partitions: (topic, partition, before, now). cluster_rules.py checks that no partition changes
    within its epoch.
    """
    for topic, index, part in places(new):
        before = old.topics.get(topic.name)
        if before is None or before.topic_id != topic.topic_id or index >= len(before.partitions):
            continue
        was = before.partitions[index]
        if was.partition_epoch != part.partition_epoch:
            yield topic, index, was, part


def check_image(image: MetadataImage) -> None:
    """Check each partition of an image."""
    for topic, index, part in places(image):
        place = f"{topic.name}-{index} at {image.offset}"
        isr, eligible = set(part.isr), set(part.eligible_leader_replicas)
        assert isr <= set(part.replicas), f"R13: {place}: {part.isr} are in sync, and {part.replicas} are replicas"
        assert eligible <= set(part.replicas), f"R13: {place}: {eligible} are eligible and no replicas"
        assert not isr & eligible, f"R13: {place}: {isr & eligible} are in sync and eligible, too"
        if len(isr) >= needed_in_sync(image, topic.name, len(part.replicas)):
            assert not eligible, f"R13: {place}: enough are in sync, and {eligible} are eligible"
        if part.leader != NO_LEADER:
            assert part.leader in isr, f"R13: {place}: {part.leader} leads and is not in sync"
        for broker_id in isr:
            broker = image.brokers.get(broker_id)
            assert broker is not None, f"R11: {place}: {broker_id} is in sync and nobody knows it"
            # A partition with one replica keeps it in sync through a clean restart of its broker.
            assert not broker.fenced or len(part.replicas) == 1, f"R11: {place}: {broker_id} is in sync and fenced"


def is_one_step(was: PartitionImage, part: PartitionImage) -> bool:
    """Return True if a partition changed at most once between these states, as several changes may become visible at
    once.
    """
    return part.partition_epoch == was.partition_epoch + 1


def check_changes(old: MetadataImage, new: MetadataImage) -> None:
    """Check changes: epochs count a partition's changes (R10); newly eligible replicas were in sync before (R12)."""
    for topic, index, was, part in changes(old, new):
        place = f"{topic.name}-{index} at {new.offset}"
        steps = part.partition_epoch - was.partition_epoch
        assert 0 < steps <= new.offset - old.offset, (
            f"R10: {place}: {steps} changes of a partition in {new.offset - old.offset} records"
        )
        if is_one_step(was, part):
            came = set(part.eligible_leader_replicas) - {*was.isr, *was.eligible_leader_replicas}
            assert not came, f"R12: {place}: {came} are eligible and were not in sync"


def unclean_starts(old: MetadataImage, new: MetadataImage, was_ended: Callable[[int], bool]) -> Iterator[int]:
    """Yield brokers whose new process has registered although the previous one did not close its logs.

    `was_ended` returns True if the process in the old state may have stopped cleanly.
    """
    for broker_id, broker in new.brokers.items():
        was = old.brokers.get(broker_id)
        if was is not None and was.broker_epoch != broker.broker_epoch:
            has_other_disks = not set(was.directories) & set(broker.directories)
            if has_other_disks or not was_ended(broker_id):
                yield broker_id


def check_unclean_start(image: MetadataImage, broker_id: int) -> None:
    """Check that a broker which may have lost records is neither in an in-sync set nor eligible (R12)."""
    for topic, index, part in places(image):
        assert broker_id not in (*part.isr, *part.eligible_leader_replicas), (
            f"R12: {topic.name}-{index} at {image.offset}: broker {broker_id} had no clean end, and there are "
            f"{part.isr} in sync, {part.eligible_leader_replicas} eligible"
        )


def unasked(old: MetadataImage, new: MetadataImage) -> Iterator[tuple[TopicImage, int, set[int]]]:
    """Yield changes of in-sync sets within an epoch that do not result from a change of a broker's state.

    Each is (topic, partition, broker that was added or removed). If several changes become visible at once, a removed
    broker may have been fenced and unfenced in between. That is not possible if all records were of partitions.
    """
    changed = list(changes(old, new))
    steps = sum(part.partition_epoch - was.partition_epoch for _, _, was, part in changed)
    is_of_partitions = steps == new.offset - old.offset
    for topic, index, was, part in changed:
        if part.leader_epoch != was.leader_epoch or not is_one_step(was, part):
            continue
        found = set(part.isr) - set(was.isr)
        if is_of_partitions:
            found |= {broker_id for broker_id in set(was.isr) - set(part.isr) if not _is_leaving(new, broker_id)}
        if found:
            yield topic, index, found


def _is_leaving(image: MetadataImage, broker_id: int) -> bool:
    """Return True if a broker is unregistered or in controlled shutdown, which shows only once for all its leaders."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.in_controlled_shutdown


def elections_of_others(old: MetadataImage, new: MetadataImage) -> Iterator[PartitionKey]:
    """Yield partitions whose new leader was neither in sync nor eligible before: records that it lacks are lost."""
    for topic, index, was, part in changes(old, new):
        is_new = part.leader not in (was.leader, NO_LEADER)
        if (is_new and (part.leader not in (*was.isr, *was.eligible_leader_replicas))) or (
            part.leader_recovery_state == RECOVERING and was.leader_recovery_state != RECOVERING
        ):
            yield topic.topic_id, index


def left_to_too_few(old: MetadataImage, new: MetadataImage) -> Iterator[PartitionKey]:
    """Yield partitions whose eligible leaders a change of min.insync.replicas removed, with too few in sync.

    Kafka removes them too. They still have all committed records, but only the few in-sync replicas count now.
    """
    for topic, index, was, part in changes(old, new):
        forgotten = set(was.eligible_leader_replicas) - {*part.isr, *part.eligible_leader_replicas}
        is_altered = _min_insync_replicas(old, topic.name) != _min_insync_replicas(new, topic.name)
        if forgotten and is_altered and has_too_few(new, topic, index):
            yield topic.topic_id, index


def joined(old: MetadataImage, new: MetadataImage) -> Iterator[tuple[TopicImage, int, int]]:
    """Yield (topic, partition, broker) of each replica that joined an in-sync set within an epoch."""
    for topic, index, was, part in changes(old, new):
        if was.leader_epoch == part.leader_epoch:
            for broker_id in set(part.isr) - set(was.isr):
                yield topic, index, broker_id
