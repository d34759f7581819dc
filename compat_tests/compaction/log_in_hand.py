"""Partition that is filled with known records and read back completely."""

import random

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from compat_tests.harness.waiting import eventually
from kwire.protocol.compression import Codec
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.records import Record, decode_all, encode_batch, iterate_headers

SEGMENT_BYTES = 1024 * 1024
"""Kafka's minimum for segment.bytes."""
KEYS = 150


def batches(seed, batch_count, *, producer_id=-1):
    """Return batches of a few kilobytes in all codecs; one record in five is a tombstone. Depends on the seed only."""
    random_source = random.Random(seed)
    sequence = 0
    for index in range(batch_count):
        records = [
            Record(
                key=b"key %d" % random_source.randrange(KEYS),
                value=None if random_source.random() < 0.2 else random_source.randbytes(random_source.randrange(2000)),
                timestamp=FIRST_TIMESTAMP_MS + 1000 * index + random_source.randrange(300),
                headers=[("trace", b"x")] if random_source.random() < 0.2 else [],
            )
            for _ in range(random_source.randrange(1, 60))
        ]
        is_idempotent = producer_id >= 0 and index % 3 == 0
        yield encode_batch(
            records,
            codec=Codec(index % 5),
            producer_id=producer_id if is_idempotent else -1,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=sequence if is_idempotent else -1,
        )
        sequence += len(records) if is_idempotent else 0


class LogInHand:
    """Partition with known contents, and the offset up to which it can be compacted."""

    def __init__(self, peer, topic):
        self.peer = peer
        self.topic = topic
        self.sizes = []  # (base offset, bytes) of each batch
        self.last_offset_of = {}

    def fill(self, seed, batch_count, producer_id=-1):
        for batch in batches(seed, batch_count, producer_id=producer_id):
            answer = self.peer.produce(self.topic, batch)
            assert answer.error_code == 0, answer
            self.sizes.append((answer.base_offset, len(batch)))

    def new_producer_id(self):
        """Return a new producer id, also from a broker that has just started."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = []

        def asked():
            answer = self.peer.ask(request, 4)
            given.append(answer.producer_id)
            return answer.error_code == 0

        eventually(asked, "a producer id")
        return given[-1]

    @property
    def surely_closed(self):
        """Return an offset below which all segments are closed."""
        size = 0
        for base_offset, batch_size in reversed(self.sizes):
            size += batch_size
            if size > SEGMENT_BYTES:
                return base_offset
        return 0

    def read(self):
        """Return all remaining records as (offset, key, value, timestamp, headers)."""
        found, offset = [], 0
        while True:
            answer = self.peer.fetch(self.topic, offset)
            assert answer.error_code == 0, answer
            data = answer.records or b""
            found += [
                (record.offset, record.key, record.value, record.timestamp, tuple(record.headers))
                for record in decode_all(data)
                if record.offset >= offset
            ]
            ends = [header.next_offset for _, header in iterate_headers(data)]
            if not ends:
                return found
            offset = ends[-1]
            if offset >= answer.high_watermark:
                return found

    def is_compacted(self, found):
        """Return True if no record in the closed part has a later record with its key there."""
        closed = [(offset, key) for offset, key, *_ in found if offset < self.surely_closed]
        return len({key for _, key in closed}) == len(closed)
