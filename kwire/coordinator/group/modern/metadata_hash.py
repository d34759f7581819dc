"""Hash of the topics that a group subscribes to (KIP-1101).

A group stores the hash of its topics: their ids, names, partitions, and the racks of their replicas. If the hash
differs from that of the current metadata, the group needs a new assignment. The values equal those of Apache Kafka, so
that either broker can continue a group of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

import xxhash

from kwire.chunks import Pieces, chunks
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.metadata.registrations import BrokerRegistration

_VERSION = b"\0"
_LONG = Struct("<Q")
_INT = Struct("<i")
_LONG_MASK = 2**64 - 1


class TopicHashes:
    """Hashes of topics, stored until a topic or the brokers change."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[TopicImage, Mapping[int, BrokerRegistration], int]] = {}

    def of_group(self, topics: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of those topics that exist, as a signed 64-bit number; 0 if there is none."""
        hashes = [
            self._of_topic(topic, image)
            for name in sorted(topics, key=_java_order)
            if (topic := image.topics.get(name)) is not None
        ]
        if not hashes:
            return 0
        return _signed(xxhash.xxh3_64_intdigest(b"".join(map(_LONG.pack, hashes))))

    def prepare(self, topics: Iterable[str], image: MetadataImage) -> Pieces[None]:
        """Compute the hashes of many topics, a few in each step."""
        for some in chunks(topics):
            for name in some:
                topic = image.topics.get(name)
                if topic is not None:
                    self._of_topic(topic, image)
            yield

    def forget(self, topic: str) -> None:
        """Drop the hash of a deleted topic."""
        self._hashes.pop(topic, None)

    def _of_topic(self, topic: TopicImage, image: MetadataImage) -> int:
        stored = self._hashes.get(topic.name)
        if stored is not None and stored[0] is topic and stored[1] is image.brokers:
            return stored[2]
        value = xxhash.xxh3_64_intdigest(_hashed_form(topic, image.brokers))
        self._hashes[topic.name] = (topic, image.brokers, value)
        return value


def _hashed_form(topic: TopicImage, brokers: Mapping[int, BrokerRegistration]) -> bytes:
    id_bits = topic.topic_id.int
    parts = [_VERSION, _LONG.pack(id_bits >> 64), _LONG.pack(id_bits & _LONG_MASK), _string(topic.name)]
    parts.append(_INT.pack(len(topic.partitions)))
    for index, partition in enumerate(topic.partitions):
        parts.append(_INT.pack(index))
        racks = (brokers[replica].rack for replica in partition.replicas if replica in brokers)
        for rack in sorted((rack for rack in racks if rack is not None), key=_java_order):
            parts += (_INT.pack(len(_utf16(rack)) // 2), _string(rack))
    return b"".join(parts)


def _string(text: str) -> bytes:
    """Return a string as hash4j hashes it: UTF-16 code units, then their number."""
    units = _utf16(text)
    return units + _INT.pack(len(units) // 2)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _java_order(text: str) -> bytes:
    """Return the key by which Java sorts strings: their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
