"""Hostile frames, derived from valid frames: each has its own seed, so that it can be made again.

A shot is the data that one connection sends: usually one frame with one mutation. Valid frames come from the schemas of
every served API and version, with random contents. Names and numbers are often those of existing resources, so that
valid frames reach the handlers.
"""

from __future__ import annotations

import dataclasses
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import cramjam
from crc32c import crc32c

from kwire.protocol.codec import encode
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.schema import Schema, schema_of
from kwire.server.apis import SERVED
from kwire.server.requests.api import Api
from tests.protocol.samples import sample
from tests.support.raw_client import sized
from tests.support.requests import batch

TOPICS = tuple(f"hostile-{number}" for number in range(6))
"""Topics that frames create and delete."""
GROUPS = tuple(f"hostile-group-{number}" for number in range(20))
OPENED = "opened"
"""Topic whose configuration makes the broker decompress batches."""
REJECTED = "rejected"
"""Topic that receives only batches that must be rejected."""
HUGE_CLAIMS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 12)
SIZES = (0, -1, 1, 2**31 - 1, -(2**31), 100 * 1024 * 1024 + 1)
BOMB_BYTES = 256 * 1024 * 1024
PRODUCE_VERSION = 11
ATTRIBUTES, CRC = 21, 17
_NAMED_TOPIC = ("name", "topic", "topic_name", "resource_name")
_NAMED_GROUP = ("group_id", "group", "key", "coordinator_keys", "groups", "groups_names")
_WAITS = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms")
_COUNTS = ("num_partitions", "count")


@dataclass(frozen=True, slots=True)
class Shot:
    """Data that one connection sends, and the state of the connection afterwards."""

    kind: str
    data: bytes
    frames: int = 1
    holds: bool = False
    """True if the frame stays half sent and its connection stays open."""


class Frames:
    """Shots by number: the same seed and number give the same shot."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def shot(self, number: int) -> Shot:
        random_source = random.Random(f"{self._seed}:{number}")
        kind = random_source.choice(KINDS)
        return MAKERS[kind](random_source)


# --- valid frames


def valid(random_source: random.Random) -> bytes:
    """Return a frame of any API and version, without its size."""
    api = random_source.choice(SERVED)
    version = random_source.randint(api.min_version, api.max_version)
    return frame_of(api, version, random_source)


def frame_of(api: Api, version: int, random_source: random.Random) -> bytes:
    """Return a frame of this API and version, without its size."""
    schema = schema_of(api.request)
    request = sample(schema, version, random_source)
    _settle(request, schema, version, random_source)
    return header(api, version, random_source) + encoded(request, version)


def encoded(request: Any, version: int) -> bytes:
    body = bytearray()
    encode(request, version, body)
    return bytes(body)


def header(
    api: Api, version: int, random_source: random.Random, client_id: bytes | None = None, tags: bytes = b"\0"
) -> bytes:
    """Return a request header; without a client id it gets a new one."""
    client_id = b"invented-%d" % random_source.getrandbits(40) if client_id is None else client_id
    fields = struct.pack(">hhih", int(api.key), version, random_source.getrandbits(31), len(client_id)) + client_id
    return fields + tags if version in schema_of(api.request).flexible else fields


def _settle(value: Any, schema: Schema, version: int, random_source: random.Random) -> None:
    """Replace most random names and numbers of the sample by existing names and moderate numbers."""
    for spec in schema.fields:
        if not spec.present(version):
            continue
        held = getattr(value, spec.name)
        for inner in held if isinstance(held, list) else [held]:
            if dataclasses.is_dataclass(inner):
                _settle(inner, schema_of(type(inner)), version, random_source)
        if spec.name in _COUNTS and isinstance(held, int):
            setattr(value, spec.name, min(held, 4))
        elif random_source.random() < 0.7:
            settled = _settled(spec.name, held, random_source)
            if settled is not held:
                setattr(value, spec.name, settled)


def _settled(name: str, held: Any, random_source: random.Random) -> Any:
    if isinstance(held, str):
        pool = TOPICS if name in _NAMED_TOPIC else GROUPS if name in _NAMED_GROUP else ()
        return random_source.choice(pool) if pool else held
    if isinstance(held, list) and held and all(isinstance(item, str) for item in held):
        return [random_source.choice(GROUPS if name in _NAMED_GROUP else TOPICS) for _ in held]
    if isinstance(held, int) and not isinstance(held, bool):
        if name in _WAITS:
            return random_source.randrange(50)
        if name == "session_timeout_ms":
            return 6000
        if name in ("partition_index", "partition", "index"):
            return random_source.randrange(3)
        if name == "replication_factor":
            return 1
    if isinstance(held, bytes) and name == "records":
        return batch(random_source.randbytes(20))
    return held


# --- mutated frames


def _flips(random_source: random.Random) -> Shot:
    frame = bytearray(valid(random_source))
    for _ in range(random_source.randint(1, 8)):
        frame[random_source.randrange(len(frame))] ^= 1 << random_source.randrange(8)
    return Shot("flips", sized(bytes(frame)))


def _body_flips(random_source: random.Random) -> Shot:
    """Flip bits only in the body, so that the damage reaches a decoder or a handler."""
    frame = bytearray(valid(random_source))
    for _ in range(random_source.randint(1, 3) if len(frame) > 30 else 0):
        frame[random_source.randrange(28, len(frame))] = random_source.randrange(256)
    return Shot("body flips", sized(bytes(frame)))


def _truncated(random_source: random.Random) -> Shot:
    frame = valid(random_source)
    return Shot("truncated", sized(frame[: random_source.randrange(len(frame))]))


def _trailing(random_source: random.Random) -> Shot:
    return Shot("trailing bytes", sized(valid(random_source) + random_source.randbytes(random_source.randint(1, 100))))


def _half(random_source: random.Random) -> Shot:
    """Send half a frame and keep the connection open; the frame never reaches its size."""
    frame = valid(random_source)
    announced = len(frame) + random_source.choice((1, 1000, 90 * 1024 * 1024))
    return Shot("half frame", struct.pack(">i", announced) + frame, holds=True)


def _announced(random_source: random.Random) -> Shot:
    return Shot("size", struct.pack(">i", random_source.choice(SIZES)) + valid(random_source))


def _claims(random_source: random.Random) -> Shot:
    frame = bytearray(valid(random_source))
    at = random_source.randrange(10, len(frame) + 1)
    claim = random_source.choice(HUGE_CLAIMS)
    frame[at : at + len(claim)] = claim
    return Shot("huge claim", sized(bytes(frame)))


def _nested(random_source: random.Random) -> Shot:
    """Repeat a part of the body many times, with a count that may be correct."""
    frame = valid(random_source)
    at = min(random_source.randrange(10, 40), len(frame) - 1)
    part = frame[at : at + random_source.randint(1, 60)] * random_source.choice((10, 100, 2000))
    count = random_source.choice((struct.pack(">i", random_source.randint(1, 5000)), b"\xff\x7f"))
    return Shot("nested", sized(frame[:at] + count + part + frame[at:]))


def _tags(random_source: random.Random) -> Shot:
    api = random_source.choice([each for each in SERVED if each.max_version in schema_of(each.request).flexible])
    version = api.max_version
    tags = random_source.choice(
        (
            b"\xff\xff\xff\xff\x0f",
            b"\xff\x7f" + b"\x01\x00" * 16383,
            b"\x01\x05\xff\xff\x03" + b"x" * 65535,
            b"\x02\x05\x00\x05\x00",
            b"\x02\x07\x00\x03\x00",
            bytes([60]) + b"".join(bytes([tag, 1, tag]) for tag in range(60)),
        )
    )
    body = encoded(sample(schema_of(api.request), version, random_source), version)
    inside = random_source.random() < 0.5
    frame = (
        header(api, version, random_source) + body[:-1] + tags
        if inside
        else header(api, version, random_source, tags=tags) + body
    )
    return Shot("tags", sized(frame))


def _version(random_source: random.Random) -> Shot:
    frame = bytearray(valid(random_source))
    struct.pack_into(">h", frame, 2, random_source.choice((-1, 99, 2**15 - 1, -(2**15), random_source.randrange(30))))
    return Shot("version", sized(bytes(frame)))


def _api_key(random_source: random.Random) -> Shot:
    frame = bytearray(valid(random_source))
    struct.pack_into(">h", frame, 0, random_source.choice((-1, 999, 2**15 - 1, -(2**15), random_source.randrange(100))))
    return Shot("API key", sized(bytes(frame)))


def _client_id(random_source: random.Random) -> Shot:
    api = random_source.choice(SERVED)
    version = api.max_version
    text = random_source.choice((b"x" * 32767, "😀".encode() * 8191, b"\xff\xfe", b"\x1b[2J\r\n\0", b"%s%n{0}"))
    number = b"%d" % random_source.getrandbits(40)
    body = encoded(sample(schema_of(api.request), version, random_source), version)
    return Shot(
        "client id", sized(header(api, version, random_source, client_id=number + text[: 32767 - len(number)]) + body)
    )


def _garbage(random_source: random.Random) -> Shot:
    return Shot("garbage", random_source.randbytes(random_source.choice((1, 3, 4, 5, 100, 5000))))


def _burst(random_source: random.Random) -> Shot:
    count = random_source.randint(2, 60)
    frames = [sized(valid(random_source)) for _ in range(count)]
    if random_source.random() < 0.5:
        frames[random_source.randrange(count)] = sized(random_source.randbytes(30))
    return Shot("burst", b"".join(frames), frames=count)


# --- record batches


def _produced(random_source: random.Random, topic: str, records: bytes) -> bytes:
    data = [PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    api = next(each for each in SERVED if each.request is ProduceRequest)
    return sized(header(api, PRODUCE_VERSION, random_source) + encoded(request, PRODUCE_VERSION))


def with_crc(records: bytearray) -> bytes:
    struct.pack_into(">I", records, CRC, crc32c(bytes(records[ATTRIBUTES:])))
    return bytes(records)


def bad_batch(random_source: random.Random) -> bytes:
    """Return a batch that must be rejected: with an invalid CRC, or an invalid field under a valid CRC."""
    records = bytearray(
        batch(*[random_source.randbytes(random_source.randrange(50)) for _ in range(random_source.randint(1, 4))])
    )
    kind = random_source.randrange(7)
    if kind == 0:
        records[random_source.randrange(ATTRIBUTES, len(records))] ^= 1 << random_source.randrange(8)
        return bytes(records)
    if kind == 1:
        struct.pack_into(">i", records, 8, random_source.choice((0, -1, 2**31 - 1, len(records), 13)))
    elif kind == 2:
        struct.pack_into(">i", records, 57, random_source.choice((0, -1, 2**31 - 1, 5)))
    elif kind == 3:
        struct.pack_into(">i", records, 23, random_source.choice((-1, 2**31 - 1, 77)))
    elif kind == 4:
        struct.pack_into(">h", records, ATTRIBUTES, random_source.choice((0x20, 5, 6, 7, 0x10)))
    elif kind == 5:
        records[61] = 0xFF
    else:
        records[16] = random_source.choice((0, 1, 3, 255))
    return with_crc(records)


def _bad_batch(random_source: random.Random) -> Shot:
    return Shot("bad batch", _produced(random_source, REJECTED, bad_batch(random_source)))


@cache
def bomb(codec: int) -> bytes:
    """Return a batch of at most a few hundred kilobytes that decompresses to BOMB_BYTES: gzip, snappy, lz4 or zstd."""
    zeros = bytes(BOMB_BYTES)
    if codec == 1:
        packer = zlib.compressobj(9, wbits=31)
        body = packer.compress(zeros) + packer.flush()
    elif codec == 2:
        body = bytes(cramjam.snappy.compress_raw(zeros[: 16 * 1024 * 1024]))
    else:
        body = bytes((cramjam.lz4 if codec == 3 else cramjam.zstd).compress(zeros))
    records = bytearray(batch(b"x")[:61]) + body[:900_000]
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">h", records, ATTRIBUTES, codec)
    return with_crc(records)


def _bomb(random_source: random.Random) -> Shot:
    return Shot("bomb", _produced(random_source, OPENED, bomb(random_source.randint(1, 4))))


def _noise_batch(random_source: random.Random) -> Shot:
    """Return a batch whose body is random bytes, marked as compressed by a codec."""
    records = bytearray(batch(b"x")[:61]) + random_source.randbytes(random_source.randrange(3000))
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">h", records, ATTRIBUTES, random_source.randint(1, 4))
    return Shot("noise batch", _produced(random_source, OPENED, with_crc(records)))


def _valid(random_source: random.Random) -> Shot:
    return Shot("valid", sized(valid(random_source)))


MAKERS: dict[str, Callable[[random.Random], Shot]] = {
    "flips": _flips,
    "body flips": _body_flips,
    "truncated": _truncated,
    "trailing bytes": _trailing,
    "half frame": _half,
    "size": _announced,
    "huge claim": _claims,
    "nested": _nested,
    "tags": _tags,
    "version": _version,
    "API key": _api_key,
    "client id": _client_id,
    "garbage": _garbage,
    "burst": _burst,
    "bad batch": _bad_batch,
    "noise batch": _noise_batch,
    "bomb": _bomb,
    "valid": _valid,
}
RARE = ("bomb", "burst", "garbage", "size")
OFTEN = ("body flips", "flips", "huge claim", "valid")
KINDS = tuple(kind for kind in MAKERS for _ in range(1 if kind in RARE else 12 if kind in OFTEN else 5))
