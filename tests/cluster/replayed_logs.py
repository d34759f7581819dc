"""Images of random metadata logs, and snapshots as text that can be compared with those of Apache Kafka."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from kwire.chunks import at_once
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.replay import Replay
from kwire.protocol.records import Record, encode_batch

UNORDERED = ("end_points", "features", "log_dirs", "cordoned_log_dirs", "entity")
"""Lists whose order does not matter; Kafka keeps them in hash tables or sorts them."""


def image_after(log: Sequence[Sequence[bytes]]) -> MetadataImage:
    """Return the image after a log, given as batches of framed records."""
    replay, offset = Replay(), 0
    for batch in log:
        data = encode_batch([Record(value=record, timestamp=0) for record in batch], base_offset=offset)
        offset = at_once(replay.feed(bytes(data), begin=offset, end=offset + len(batch)))
    return replay.image


def normalised(records: Iterable[Any]) -> list[str]:
    """Return a snapshot as text that does not depend on the order of hash tables."""
    texts = [_text(record) for record in records]
    assert len(set(texts)) == len(texts), "a snapshot says the same twice"
    return sorted(texts)


def _text(record: Any) -> str:
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    for name in UNORDERED:
        if isinstance(fields.get(name), list):
            fields[name] = sorted(map(repr, fields[name]))
    for name in fields.keys() & {"cordoned_log_dirs", "eligible_leader_replicas", "last_known_elr"}:
        fields[name] = fields[name] or None
    # Kafka and kwire no longer store which nodes came from ZooKeeper.
    fields.pop("zk_migration_ready", None)
    return f"{type(record).__name__} {sorted(fields.items())}"
