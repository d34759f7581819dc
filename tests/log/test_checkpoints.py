"""Checkpoint files in Kafka's text format, and the leader epochs stored in one of them."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.log import checkpoints
from kwire.log.checkpoints import CorruptCheckpointError
from kwire.log.disk import RealDisk
from kwire.log.leader_epochs import LeaderEpochs


def test_offsets_are_written_as_kafka_writes_them(tmp_path):
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    offsets = {("orders", 0): 12, ("with-dash", 3): 0}
    checkpoints.write_offsets(RealDisk(), path, offsets)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\norders 0 12\nwith-dash 3 0\n"
    assert checkpoints.read_offsets(RealDisk(), path) == offsets
    assert checkpoints.read_offsets(RealDisk(), path + ".none") == {}


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "1\n0\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na 0 x\n",
        "x\n0\n",
        "0\n1\na 0 1 2\n",
        "0\n2\na 0 1 2\nb 0\n",
        "ÿ",
        f"0\n1\na {2**31} 1\n",
        f"0\n1\na 0 {2**63}\n",
    ],
)
def test_malformed_offset_checkpoints_are_rejected(tmp_path, text):
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptCheckpointError):
        checkpoints.read_offsets(RealDisk(), str(path))


def test_an_empty_offset_checkpoint_has_no_offsets(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"")
    assert checkpoints.read_offsets(RealDisk(), str(tmp_path / "checkpoint")) == {}


@given(st.uuids())
def test_partition_metadata_round_trips(topic_id):
    data = checkpoints.format_partition_metadata(topic_id)
    assert checkpoints.parse_partition_metadata(data, "x") == topic_id


def test_partition_metadata_is_written_as_kafka_writes_it():
    data = checkpoints.format_partition_metadata(uuid.UUID(int=1))
    assert data == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    for broken in (b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", b"version: 0\n", b"version: 0\ntopic_id: A"):
        with pytest.raises(CorruptCheckpointError):
            checkpoints.parse_partition_metadata(broken, "x")


def test_the_clean_shutdown_file_carries_the_broker_epoch():
    assert checkpoints.format_clean_shutdown(7) == b'{"version":0,"brokerEpoch":7}'
    assert checkpoints.parse_clean_shutdown(b'{"version":0,"brokerEpoch":7}') == 7
    for content in (b"", b"[]", b'{"brokerEpoch":"x"}', b"{"):
        assert checkpoints.parse_clean_shutdown(content) == -1


def epochs(tmp_path, *entries):
    found = LeaderEpochs(RealDisk(), str(tmp_path))
    for epoch, start in entries:
        found.assign(epoch, start)
    return found


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"brokerEpoch":9223372036854775808}', b'{"brokerEpoch":-2}'])
def test_a_malformed_clean_shutdown_file_has_no_broker_epoch(data):
    assert checkpoints.parse_clean_shutdown(data) == -1


def test_epochs_survive_in_their_file(tmp_path):
    epochs(tmp_path, (1, 0), (4, 10), (6, 15))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n4 10\n6 15\n"
    again = LeaderEpochs(RealDisk(), str(tmp_path))
    again.load()
    assert again.entries() == [(1, 0), (4, 10), (6, 15)]
    assert again.latest_epoch == 6


@pytest.mark.parametrize(
    "text", ["0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n2\n1 5\n", "0\n2\n1 0 1\n2\n", "nonsense"]
)
def test_a_broken_epoch_file_is_empty(tmp_path, text):
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    found = LeaderEpochs(RealDisk(), str(tmp_path))
    found.load()
    assert found.entries() == []


def test_epochs_only_grow_and_empty_ones_are_replaced(tmp_path):
    found = epochs(tmp_path, (1, 0), (2, 10))
    assert not found.assign(2, 20)
    assert not found.assign(1, 20)
    assert found.assign(3, 10)
    assert found.entries() == [(1, 0), (3, 10)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 5)), (2, (2, 10)), (3, (2, 10)), (4, (4, 15)), (5, (4, 15)), (6, (6, 30)), (7, (-1, -1))],
)
def test_the_end_offset_of_a_leader_epoch(tmp_path, epoch, expected):
    found = epochs(tmp_path, (2, 5), (4, 10), (6, 15))
    assert found.end_offset_for(epoch, 30) == expected


def test_an_empty_epoch_file_has_no_latest_epoch(tmp_path):
    assert epochs(tmp_path).end_offset_for(0, 30) == (-1, -1)


def test_the_leader_epoch_of_an_offset(tmp_path):
    found = epochs(tmp_path, (2, 5), (4, 10))
    assert [found.epoch_of(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


def test_epochs_are_cut_at_both_ends(tmp_path):
    found = epochs(tmp_path, (1, 0), (2, 10), (3, 20), (4, 30))
    found.truncate_from_end(30)
    assert found.entries() == [(1, 0), (2, 10), (3, 20)]
    found.truncate_from_start(10)
    assert found.entries() == [(2, 10), (3, 20)]
    found.truncate_from_start(15)
    assert found.entries() == [(2, 15), (3, 20)]
    found.truncate_from_start(25)
    assert found.entries() == [(3, 25)]
    found.clear()
    assert (found.entries(), found.latest_epoch) == ([], -1)
