"""Records that are prepared in steps: same image as when they are applied one by one."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import CHUNK, at_once
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.prepared_records import prepare, prepare_in_pieces, prepared_with
from kwire.cluster.metadata.record_versions import NO_FEATURES
from kwire.protocol.messages.metadata_records import (
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.support.loop_steps import LINES_MAX, longest_step_of, needs_lines

TOPICS, PARTITIONS = 3, 4


def base() -> MetadataImage:
    records: list[Any] = [RegisterBrokerRecord(broker_id=1), RegisterBrokerRecord(broker_id=2)]
    for number in range(TOPICS):
        records.append(TopicRecord(name=f"t{number}", topic_id=UUID(int=number)))
        records += [
            PartitionRecord(topic_id=UUID(int=number), partition_id=index, replicas=[1, 2], isr=[1, 2], leader=1)
            for index in range(PARTITIONS)
        ]
    return MetadataImage().apply(records, offset=10, epoch=1)


def change(random_source: random.Random) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        topic_id=UUID(int=random_source.randrange(TOPICS)),
        partition_id=random_source.randrange(PARTITIONS),
        leader=random_source.choice([-2, -1, 1, 2]),
        isr=random_source.choice([None, [1], [2], [1, 2]]),
    )


def drawn(random_source: random.Random) -> list[Any]:
    """Return random changes: by topic and mixed, of a partition twice, and with other records between them."""
    records: list[Any] = [change(random_source) for _ in range(random_source.randrange(12))]
    if random_source.random() < 0.5:
        records.sort(key=lambda record: record.topic_id)
    if random_source.random() < 0.5:
        records.insert(random_source.randrange(len(records) + 1), FenceBrokerRecord(id=1))
    return records


@pytest.mark.parametrize("seed", range(100))
def test_prepared_records_give_the_same_image(seed: int) -> None:
    random_source = random.Random(seed)
    image, records, more = base(), drawn(random_source), drawn(random_source)
    prepared = at_once(prepare_in_pieces(records, NO_FEATURES, image))
    meanwhile = [change(random_source) for _ in range(random_source.randrange(3))]
    newest = image.apply(meanwhile, offset=11, epoch=1)
    both = prepared_with(prepared, more, NO_FEATURES)
    assert newest.apply(both.changes, offset=50, epoch=1) == newest.apply([*records, *more], offset=50, epoch=1)
    assert (both.count, both.body) == (len([*records, *more]), prepare([*records, *more]).body)
    assert prepared.count == len(records), "what was prepared stays as it was"


def test_a_topic_that_is_gone_is_not_brought_back() -> None:
    image = base()
    prepared = at_once(prepare_in_pieces([change(random.Random(0))], NO_FEATURES, image))
    removed = [RemoveTopicRecord(topic_id=UUID(int=number)) for number in range(TOPICS)]
    with pytest.raises(AssertionError, match="unknown topic id"):
        image.apply([*removed, *prepared.changes], offset=50, epoch=1)


def test_many_are_prepared_in_steps() -> None:
    random_source = random.Random(0)
    steps = prepare_in_pieces([change(random_source) for _ in range(10 * CHUNK)], NO_FEATURES, base())
    assert sum(1 for _ in steps) == 10


@needs_lines
def test_a_change_of_one_partition_leaves_what_was_prepared_of_its_topic() -> None:
    """The batch is applied in one step, which must replace only that partition."""
    topic_id, count = UUID(int=99), 3000
    made = [
        PartitionRecord(topic_id=topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2], leader=1)
        for index in range(count)
    ]
    image = base().apply([TopicRecord(name="long", topic_id=topic_id), *made], offset=20, epoch=1)
    records = [PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=2) for index in range(count)]
    prepared = at_once(prepare_in_pieces(records, NO_FEATURES, image))
    newest = image.apply([PartitionChangeRecord(topic_id=topic_id, partition_id=7, isr=[1])], offset=21, epoch=1)
    assert longest_step_of(newest.apply_in_pieces(prepared.changes, offset=50, epoch=1)) < LINES_MAX
