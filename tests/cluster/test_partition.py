"""Partition on its leader: appends that are rejected for too few in-sync replicas."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.partitions.partition import Partition
from kwire.log.config import LogConfig
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.coordinator.world import no_group_commit, topic_image
from tests.log.support import open_at
from tests.support.metadata import Alone
from tests.support.requests import batch


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Return a partition with one of three replicas in sync."""
    image = dataclasses.replace(topic_image("t", 1, 1).partitions[0], replicas=(1, 2, 3), isr=(1,))
    log = open_at(tmp_path / "t-0", LogConfig(min_insync_replicas=2))
    return Partition(
        topic="t", topic_id=UUID(int=1), index=0, image=image, log=log, group_commit=no_group_commit(), peers=Alone()
    )


def test_acks_all_needs_the_replicas_that_the_topic_asks_for(partition: Partition) -> None:
    with pytest.raises(KafkaError) as raised:
        partition.append(batch(b"a"), -1)
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert partition.append(batch(b"a"), 1).base_offset == 0


def test_no_more_replicas_are_needed_than_there_are(partition: Partition) -> None:
    partition.update(dataclasses.replace(partition.image, replicas=(1,), isr=(1,)), is_led=True)
    assert partition.append(batch(b"a"), -1).base_offset == 0
