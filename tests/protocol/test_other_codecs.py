"""The same random values have the same bytes in kwire, in kio and in kafka-python.

There is no list of exceptions because there are none: where the peers' values look different (None for a zero UUID,
sets of bits, timedeltas), peers.py translates, and the bytes agree.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kwire.protocol.codec import encode
from kwire.protocol.schema import Schema

from .peers import encode_with_kafka_python, encode_with_kio, known_to_kafka_python, known_to_kio
from .samples import sample
from .strategies import all_versions, name_of

IN_KIO = [case for case in all_versions() if known_to_kio(case[0])]
IN_KAFKA_PYTHON = [case for case in all_versions() if known_to_kafka_python(case[0])]
SAMPLES = 12


@pytest.mark.parametrize(("schema", "version"), IN_KIO, ids=name_of)
def test_kio_agrees(schema: Schema, version: int) -> None:
    _compare(schema, version, encode_with_kio)


@pytest.mark.parametrize(("schema", "version"), IN_KAFKA_PYTHON, ids=name_of)
def test_kafka_python_agrees(schema: Schema, version: int) -> None:
    _compare(schema, version, encode_with_kafka_python)


def _compare(schema: Schema, version: int, encode_with_peer: Callable[[Any, int], bytes]) -> None:
    chance = random.Random(f"{schema.name} {version}")
    for _ in range(SAMPLES):
        value = sample(schema, version, chance)
        ours = bytearray()
        encode(value, version, ours)
        assert bytes(ours) == encode_with_peer(value, version), value
