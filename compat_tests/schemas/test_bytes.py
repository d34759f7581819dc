"""Apache Kafka's own classes read the bytes that kwire writes, and write the same bytes again.

Together with the comparison of the declarations this proves that a value has the same encoding in both. For records of
internal topics it is the only such proof, because kio and kafka-python do not support them.
"""

import random
import subprocess
from pathlib import Path

import pytest

from compat_tests.harness.reference import class_path
from compat_tests.schemas.declared import DECLARED
from kwire.protocol.codec import encode
from tests.protocol.samples import sample_bytes

SAMPLES = 8
ECHO = Path(__file__).with_name("Echo.java")


@pytest.fixture(scope="session")
def answers(schemas, tmp_path_factory):
    """Return Kafka's output for each sample, by message name."""
    samples = [(name, version, data) for name in sorted(DECLARED) for version, data in samples_of(name)]
    path = tmp_path_factory.mktemp("echo") / "samples"
    lines = (f"{schemas.classes[name]} {version} {data.hex()}\n" for name, version, data in samples)
    path.write_text("".join(lines))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(), str(ECHO), str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for (name, version, data), answer in zip(samples, output, strict=True):
        found.setdefault(name, []).append((version, data.hex(), answer))
    return found


def samples_of(name):
    """Return samples in each version: one with all defaults, then random values."""
    schema = DECLARED[name]
    random_source = random.Random(name)
    for version in schema.versions:
        defaults = bytearray()
        encode(schema.cls(), version, defaults)
        yield version, bytes(defaults)
        for _ in range(SAMPLES):
            yield version, sample_bytes(schema, version, random_source)


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_kafka_writes_the_same_bytes_that_it_read(answers, name):
    assert [sample for sample in answers[name] if sample[2] != "same"] == []
