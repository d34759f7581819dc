"""Damage in the metadata log: a torn end is cut off by recovery, anything else keeps the node from starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.directory import DirectoryRefused
from kwire.cluster.metadata_damage import refuse_damage
from kwire.log.disk import RealDisk
from kwire.log.log_manager import METADATA_DIRECTORY
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker

LOG = "00000000000000000000.log"


def write(directory: Path, data: bytes, name: str = LOG) -> None:
    (directory / name).write_bytes(data)


def refused(directory: Path) -> bool:
    try:
        refuse_damage(RealDisk(), str(directory))
    except DirectoryRefused:
        return True
    return False


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    whole = batch(b"a") + batch(b"b" * 50)
    for size in range(len(whole) + 1):
        write(tmp_path, whole[:size])
        assert not refused(tmp_path)
    write(tmp_path, whole + bytes(500))
    assert not refused(tmp_path)
    assert not refused(tmp_path / "missing")


def test_a_flaw_with_batches_behind_it_is_damage(tmp_path: Path) -> None:
    first, rest = batch(b"a"), batch(b"b") + batch(b"c")
    for position in range(8, len(first)):  # base offset and leader epoch are not under the CRC
        if position in range(12, 16):
            continue
        damaged = bytearray(first + rest)
        damaged[position] ^= 0x41
        write(tmp_path, bytes(damaged))
        assert refused(tmp_path), position


def test_a_flaw_at_the_end_of_an_older_segment_is_damage(tmp_path: Path) -> None:
    write(tmp_path, batch(b"a")[:-1])
    write(tmp_path, batch(b"b"), "00000000000000000001.log")
    assert refused(tmp_path)


def test_a_changed_bit_costs_no_topic(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topics = [create_topic(client)[0] for _ in range(3)]
        for topic in topics:
            produce(client, topic, batch(b"kept"))
    path = tmp_path / METADATA_DIRECTORY / LOG
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[good.index(topics[0].encode())] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DirectoryRefused, match="restore it from a backup"):
        RunningBroker(tmp_path)
    path.write_bytes(good)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        assert [values_in(fetch(client, topic).records) for topic in topics] == [[b"kept"]] * 3
