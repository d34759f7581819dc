"""Images of random metadata logs: equal to Apache Kafka's, also through snapshots and batches of any size."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.image_records import records_of
from kwire.cluster.raft.snapshots import decode_snapshot, encode_snapshot
from tests.cluster.drawn_logs import Draw
from tests.cluster.kafkas_images import digest, stored
from tests.cluster.replayed_logs import image_after, normalised


def test_images_are_those_of_kafka() -> None:
    """Stored digests are compared; `make compat ROW=images` shows the differences."""
    found = {seed: digest(records_of(image_after(Draw(seed).log()))) for seed in stored()}
    assert [seed for seed, text in stored().items() if found[seed] != text] == []
    assert len(found) == 400


@pytest.mark.parametrize("seed", range(1001, 1031))
def test_a_snapshot_makes_the_image_again(seed: int) -> None:
    image = image_after(Draw(seed).log())
    content = b"".join(encode_snapshot(records_of(image), epoch=1, now_ms=0, last_contained_timestamp_ms=0))
    again = MetadataImage().apply(decode_snapshot(content).records, offset=image.offset, epoch=image.epoch)
    assert normalised(records_of(again)) == normalised(records_of(image))
