"""Blocks of producer ids, which brokers take from the controller one at a time (KIP-730)."""

from __future__ import annotations

from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.messages.metadata_records import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000
"""Producer ids of a block, as in Kafka."""


def plan_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> tuple[ProducerIdsRecord, range]:
    """Return the record of a block of ids that is allocated only once, and the block."""
    block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
    return ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=block.stop), block
