"""Batches that are small on the wire and hold very many records."""

from functools import cache

import cramjam

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from kwire.protocol.compression import Codec
from kwire.protocol.records import BatchHeader, Record, assemble_batch, encode_record

LAST_LATER_MS = 1000
"""Time between the last record of a packed batch and all others."""


def compressed(body, count, last_later_ms, now_ms):
    header = BatchHeader(
        base_offset=0,
        length=0,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=int(Codec.ZSTD),
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms + last_later_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return bytes(assemble_batch(header, bytes(cramjam.zstd.compress(bytes(body), 3))))


@cache
def packed_batch(count):
    """Return some kilobytes with millions of records: all but the last are the same bytes, with the same offset delta.

    kwire stores such a batch without decompressing it. Apache Kafka decompresses it and rejects its offsets.
    """
    one = bytearray()
    encode_record(one, Record(value=b"", timestamp=0), 0, 0)
    last = bytearray()
    encode_record(last, Record(value=b"", timestamp=0), count - 1, LAST_LATER_MS)
    return compressed(bytes(one) * (count - 1) + bytes(last), count, LAST_LATER_MS, FIRST_TIMESTAMP_MS)


@cache
def numbered_batch(count, last_later_ms=0):
    """Return a valid batch of `count` small records with keys, numbered as a producer numbers them."""
    body = bytearray()
    for number in range(count):
        encode_record(body, Record(key=b"", value=b"", timestamp=0), number, 0 if number < count - 1 else last_later_ms)
    return compressed(body, count, last_later_ms, FIRST_TIMESTAMP_MS)
