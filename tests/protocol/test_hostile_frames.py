"""Bytes that no honest peer sends: each ends in a ProtocolError or a value, in time and memory bounded by their number.

There are about 100,000 mutated frames in all, spread evenly over the messages' versions.
"""

import dataclasses
import random
import tracemalloc
from typing import Any

import pytest

from kwire.protocol.codec import decode_prefix
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.schema import Schema
from kwire.protocol.wire import uuid_from

from .samples import sample_bytes
from .strategies import all_messages, all_versions, name_of

MUTATIONS = 100_000
each_message = pytest.mark.parametrize("schema", all_messages(), ids=name_of)
HUGE_CLAIMS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 12)


@each_message
def test_mutated_frames_are_refused_or_understood(schema: Schema) -> None:
    chance = random.Random(schema.name)
    for version in schema.versions:
        frames = [sample_bytes(schema, version, chance) for _ in range(5)]
        for _ in range(MUTATIONS // len(all_versions()) + 1):
            _decode(schema, version, _mutate(chance.choice(frames), chance))


@each_message
def test_huge_claims_cost_no_memory(schema: Schema) -> None:
    chance = random.Random(schema.name)
    version = schema.versions.high
    whole = sample_bytes(schema, version, chance)
    _decode(schema, version, whole)  # compiles the decoder, outside the measurement
    for claim in HUGE_CLAIMS:
        for position in range(min(len(whole), 60)):
            frame = whole[:position] + claim + whole[position + len(claim) :]
            uuid_from.cache_clear()  # a growing cache is not the frame's memory
            tracemalloc.start()
            _decode(schema, version, frame)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 20_000 + 100 * len(frame)


def _mutate(frame: bytes, chance: random.Random) -> bytes:
    out = bytearray(frame)
    for _ in range(chance.randrange(1, 4) if out else 0):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(out):
            out[at] = chance.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            out[at : at + chance.randrange(6)] = chance.randbytes(chance.randrange(6))
        elif kind == 3:
            out[at : at + 4] = chance.choice(HUGE_CLAIMS)
        else:
            del out[at:]
    return bytes(out)


def _decode(schema: Schema, version: int, frame: bytes) -> None:
    value: Any
    try:
        value, position = decode_prefix(schema.cls, version, frame)
    except ProtocolError:
        return
    assert position <= len(frame)
    assert _elements(value) <= len(frame)


def _elements(value: Any) -> int:
    """Array elements anywhere inside: each must have cost at least a byte."""
    if isinstance(value, list):
        return len(value) + sum(_elements(item) for item in value)
    if dataclasses.is_dataclass(value):
        return sum(_elements(getattr(value, spec.name)) for spec in dataclasses.fields(value))
    return 0
