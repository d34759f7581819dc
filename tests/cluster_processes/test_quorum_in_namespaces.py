"""Part of the campaign with real controllers (tests/campaign/controllers.py), and tests of its checks."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.raft.control_batches import control_batch, leader_change
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.messages.metadata_records import ProducerIdsRecord, RegisterBrokerRecord, encode_metadata_record
from kwire.protocol.records import Record, encode_batch
from tests.campaign.controllers import Run
from tests.cluster_processes.faults import (
    isolate_the_leader,
    kill_the_leader,
    pause_the_leader,
    wipe_a_disk,
)
from tests.cluster_processes.network import NAMESPACES, Network, why_not
from tests.cluster_processes.nodes import failures_in
from tests.cluster_processes.quorum import Shape
from tests.cluster_processes.stored import Stored, compare, read_stored
from tests.cluster_processes.writers import Block, Ledger, Registered

BROKER = Registered(1000, UUID(int=7), 1)
BLOCK = Block(1000, 0, 1000)


@pytest.fixture
def namespaces() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(f"controllers cannot be cut off here: {reason}")


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_a_quorum_loses_no_records_with_a_kill_a_partition_a_pause_and_a_lost_disk(tmp_path: Path) -> None:
    faults = (kill_the_leader, isolate_the_leader, pause_the_leader, wipe_a_disk)
    run = Run(seed=3, shape=Shape(), faults=faults)
    run.live(tmp_path)
    assert run.problems == []
    assert len(run.figures.new_leader) >= 3, "each of them takes the leader away"
    assert run.epochs >= 4
    assert run.acknowledged > 50


@pytest.mark.usefixtures("namespaces")
def test_a_network_partition_has_a_direction_and_is_removed_completely() -> None:
    network = Network([1, 2])
    try:
        names = [network.namespace(node) for node in network.nodes]
        assert _hears(network, 1, 2)
        network.cut_one_way(1, 2)
        assert not network.are_joined(1, 2)
        assert not _hears(network, 1, 2)
        network.heal()
        assert _hears(network, 1, 2)
    finally:
        network.close()
    assert not any((NAMESPACES / name).exists() for name in names)


def _hears(network: Network, source: int, target: int) -> bool:
    """Return True if packets of one node arrive at the other; the direction back is not checked."""
    with network.inside(target):
        receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with network.inside(source):
        sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiving, sending:
        receiving.bind((network.address(target), 0))
        receiving.settimeout(0.5)
        sending.sendto(b"heard", receiving.getsockname())
        try:
            return receiving.recv(16) == b"heard"
        except TimeoutError:
            return False


# --- the checks


def log_of(tmp_path: Path, name: str, *records: Any, leader: int = 1) -> Stored:
    """Return the contents of a directory with a leader change record and one batch for each record."""
    directory = tmp_path / name / METADATA_DIRECTORY
    directory.mkdir(parents=True)
    log = bytes(control_batch([leader_change(leader)], base_offset=0, epoch=4, timestamp_ms=1))
    for offset, record in enumerate(records, 1):
        stored = [Record(value=encode_metadata_record(record), timestamp=1)]
        log += bytes(encode_batch(stored, base_offset=offset, partition_leader_epoch=4))
    (directory / "00000000000000000000.log").write_bytes(log)
    return read_stored(tmp_path / name, end=3)


REGISTRATION = RegisterBrokerRecord(broker_id=1000, incarnation_id=UUID(int=7), broker_epoch=1)
PRODUCER_IDS = ProducerIdsRecord(broker_id=1000, broker_epoch=1, next_producer_id=1000)


def problems(*stored: Stored, seen: dict[int, int] | None = None, ledger: Ledger | None = None) -> list[str]:
    ledger = ledger or Ledger(acknowledged=[BROKER, BLOCK])
    return compare(dict(enumerate(stored, 1)), seen or {4: 1}, ledger, 3)


def test_the_check_accepts_complete_logs(tmp_path: Path) -> None:
    one, other = (log_of(tmp_path, name, REGISTRATION, PRODUCER_IDS) for name in ("a", "b"))
    assert one.written.keys() == {BROKER, BLOCK}
    assert one.image.next_producer_id == 1000
    assert problems(one, other) == []


def test_the_check_detects_a_lost_acknowledged_record(tmp_path: Path) -> None:
    whole = log_of(tmp_path, "a", REGISTRATION, PRODUCER_IDS)
    short = log_of(tmp_path, "b", REGISTRATION)
    found = problems(whole, short)
    for said in ("its log ends at 2", "differ from offset 2", "images of 1 and 2 differ", f"{BLOCK} was acknowledged"):
        assert any(said in problem for problem in found), said


def test_the_check_detects_another_broker_with_an_acknowledged_id(tmp_path: Path) -> None:
    other = dataclasses.replace(REGISTRATION, incarnation_id=UUID(int=8))
    assert any("instead of" in problem for problem in problems(log_of(tmp_path, "a", other, PRODUCER_IDS)))


def test_the_check_detects_producer_ids_allocated_twice(tmp_path: Path) -> None:
    ledger = Ledger(acknowledged=[BROKER, BLOCK, BLOCK])
    found = problems(log_of(tmp_path, "a", REGISTRATION, PRODUCER_IDS), ledger=ledger)
    assert found == ["the producer ids from 0 on were given out 2 times"]


@pytest.mark.parametrize(("in_the_log", "seen"), [(2, {4: 1}), (1, {4: 2})])
def test_the_check_detects_a_second_leader_of_an_epoch(tmp_path: Path, in_the_log: int, seen: dict[int, int]) -> None:
    one = log_of(tmp_path, "a", REGISTRATION, PRODUCER_IDS, leader=in_the_log)
    assert problems(one, seen=seen) == ["epoch 4 has the leaders [1, 2]"]


def test_the_check_detects_a_damaged_batch(tmp_path: Path) -> None:
    log_of(tmp_path, "a", REGISTRATION, PRODUCER_IDS)
    path = tmp_path / "a" / METADATA_DIRECTORY / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert "is damaged" in problems(read_stored(tmp_path / "a", end=3))[0]


LOST_POWER = """\
[12:00] CRITICAL the controller cannot go on
Traceback (most recent call last):
  File "disk.py", line 1, in sync
OSError: [Errno 5] Input/output error

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "raft_node.py", line 1, in _flush_all
kwire.log.disk.DiskFailure: fsync of x failed: Input/output error
kwire: stopped, because fsync of x failed: Input/output error
"""


def test_the_check_detects_an_internal_failure_except_on_a_disk_without_power() -> None:
    assert failures_in(LOST_POWER) == []
    broken = "Traceback (most recent call last):\n  File ...\nAssertionError: an epoch has one leader\nkwire: stopped\n"
    assert failures_in(broken + LOST_POWER) == ["AssertionError: an epoch has one leader"]
