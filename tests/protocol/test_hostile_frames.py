"""Invalid bytes: decoding gives a ProtocolError or a value, in time and memory bounded by the number of bytes.

There are about 100,000 mutated frames in total, spread evenly over the messages' versions.
"""

import dataclasses
import random
import tracemalloc
from typing import Any

import pytest

from kwire.protocol.codec import decode_prefix
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.schema import Array, Schema
from kwire.protocol.wire import uuid_from

from .mutations import HUGE_CLAIMS, mutate
from .samples import sample_bytes
from .strategies import all_messages, all_versions, name_of

MUTATIONS = 100_000
each_message = pytest.mark.parametrize("schema", all_messages(), ids=name_of)


@each_message
def test_mutated_frames_are_rejected_or_understood(schema: Schema) -> None:
    random_source = random.Random(schema.name)
    for version in schema.versions:
        frames = [sample_bytes(schema, version, random_source) for _ in range(5)]
        for _ in range(MUTATIONS // len(all_versions()) + 1):
            _decode(schema, version, mutate(random_source.choice(frames), random_source))


def examine(schema: Schema) -> None:
    """Let a message and its structs examine their fields, outside the measurement."""
    for spec in schema.fields:
        inner = spec.type.element if isinstance(spec.type, Array) else spec.type
        if isinstance(inner, Schema):
            examine(inner)


@each_message
def test_huge_claims_cost_no_memory(schema: Schema) -> None:
    random_source = random.Random(schema.name)
    version = schema.versions.high
    whole = sample_bytes(schema, version, random_source)
    examine(schema)
    _decode(schema, version, whole)  # compiles the decoder, outside the measurement
    for claim in HUGE_CLAIMS:
        for position in range(min(len(whole), 60)):
            frame = whole[:position] + claim + whole[position + len(claim) :]
            limit = 20_000 + 100 * len(frame)
            if _peak_bytes(schema, version, frame) >= limit:  # another thread of the tests may have used the memory
                assert _peak_bytes(schema, version, frame) < limit


def _peak_bytes(schema: Schema, version: int, frame: bytes) -> int:
    uuid_from.cache_clear()  # the growing cache is no memory of the frame
    tracemalloc.start()
    _decode(schema, version, frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _decode(schema: Schema, version: int, frame: bytes) -> None:
    value: Any
    try:
        value, position = decode_prefix(schema.cls, version, frame)
    except ProtocolError:
        return
    assert position <= len(frame)
    assert _elements(value) <= len(frame)


def _elements(value: Any) -> int:
    """Return the number of array elements at any depth: each must have at least a byte in the frame."""
    if isinstance(value, list):
        return len(value) + sum(_elements(item) for item in value)
    if dataclasses.is_dataclass(value):
        return sum(_elements(getattr(value, spec.name)) for spec in dataclasses.fields(value))
    return 0
