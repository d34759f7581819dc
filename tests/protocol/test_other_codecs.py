"""Random values: equal bytes in kwire, in kio and in kafka-python.

There are no exceptions. If the peers' values look different (None for a zero UUID, sets of bits, timedeltas), peers.py
translates them, and the bytes agree. docs/differences-codec.md lists the messages that a peer lacks.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kwire.protocol.codec import encode
from kwire.protocol.schema import Schema

from .peers import (
    encode_with_kafka_python,
    encode_with_kio,
    known_to_kafka_python,
    known_to_kio,
    module_of_kio,
    modules_of_kio,
    names_in_kafka_python,
)
from .samples import sample
from .strategies import all_versions, name_of

IN_KIO = [case for case in all_versions() if known_to_kio(case[0])]
IN_KAFKA_PYTHON = [case for case in all_versions() if known_to_kafka_python(case[0])]
SAMPLES = 12


@pytest.mark.parametrize(("schema", "version"), IN_KIO, ids=name_of)
def test_kio_encodes_the_same_bytes(schema: Schema, version: int) -> None:
    _compare(schema, version, encode_with_kio)


@pytest.mark.parametrize(("schema", "version"), IN_KAFKA_PYTHON, ids=name_of)
def test_kafka_python_encodes_the_same_bytes(schema: Schema, version: int) -> None:
    _compare(schema, version, encode_with_kafka_python)


def test_every_message_of_kio_is_compared() -> None:
    assert {module_of_kio(schema, version) for schema, version in IN_KIO} == modules_of_kio()


def test_every_message_of_kafka_python_is_compared() -> None:
    assert {schema.name for schema, _ in IN_KAFKA_PYTHON} == names_in_kafka_python()


def _compare(schema: Schema, version: int, encode_with_peer: Callable[[Any, int], bytes]) -> None:
    random_source = random.Random(f"{schema.name} {version}")
    for _ in range(SAMPLES):
        value = sample(schema, version, random_source)
        ours = bytearray()
        encode(value, version, ours)
        assert bytes(ours) == encode_with_peer(value, version), value
