"""Part of the campaign with real brokers (tests/campaign/brokers.py), and tests of its checks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the clients are others' own")
pytest.importorskip("aiokafka", reason="the clients are others' own")

from kwire.protocol.records import Record, encode_batch
from tests.campaign.brokers import Run
from tests.cluster_processes.broker_cluster import BrokerShape
from tests.cluster_processes.broker_faults import isolate_a_leader, kill_a_leader, replace_certificates
from tests.cluster_processes.network import why_not
from tests.cluster_processes.same_logs import compare_replicas
from tests.cluster_processes.verifiable import Verified, judge


@pytest.mark.long
def test_brokers_lose_no_records_with_a_kill_and_a_network_partition(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(f"brokers cannot be cut off here: {reason}")
    run = Run(seed=3, shape=BrokerShape(), seconds=0, faults=(kill_a_leader, isolate_a_leader))
    run.live(tmp_path / "run")
    assert run.problems == []
    assert len(run.figures.progress) == len(run.figures.recovery) == 2
    assert run.operations > 500


@pytest.mark.long
def test_a_secured_cluster_survives_other_certificates_and_changes_of_rights(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(f"brokers cannot be cut off here: {reason}")
    faults = (replace_certificates, kill_a_leader)
    run = Run(seed=3, shape=BrokerShape(is_secured=True), seconds=0, faults=faults)
    run.live(tmp_path / "run")
    assert run.problems == []
    assert run.access[True] > 10
    assert run.access[False] > 10


# --- the checks


def replica(tmp_path: Path, broker: int, *values: bytes, epoch: int = 0) -> Path:
    """Create a broker's directory with one batch for each record in t-0; the last one has the given epoch."""
    directory = tmp_path / str(broker)
    (directory / "t-0").mkdir(parents=True)
    batches = [
        encode_batch([Record(value=value, timestamp=1)], base_offset=offset, partition_leader_epoch=0)
        for offset, value in enumerate(values[:-1])
    ]
    last = Record(value=values[-1], timestamp=1)
    batches.append(encode_batch([last], base_offset=len(batches), partition_leader_epoch=epoch))
    half = len(batches) // 2
    for first, some in ((0, batches[:half]), (half, batches[half:])):
        (directory / "t-0" / f"{first:020}.log").write_bytes(b"".join(map(bytes, some)))
    return directory


def test_replicas_may_end_their_segments_elsewhere(tmp_path: Path) -> None:
    one, other = replica(tmp_path, 1, b"a", b"b", b"c"), replica(tmp_path, 2, b"a", b"b", b"c")
    whole = b"".join(path.read_bytes() for path in sorted((other / "t-0").iterdir()))
    for path in (other / "t-0").iterdir():
        path.unlink()
    (other / "t-0" / f"{0:020}.log").write_bytes(whole)
    assert compare_replicas({1: one, 2: other}, ("t",), 1) == []


@pytest.mark.parametrize(
    ("values", "epoch"), [((b"a", b"b"), 0), ((b"a", b"b", b"x"), 0), ((b"a", b"b", b"c"), 1)], ids=str
)
def test_the_check_detects_replicas_that_differ(tmp_path: Path, values: tuple[bytes, ...], epoch: int) -> None:
    one, other = replica(tmp_path, 1, b"a", b"b", b"c"), replica(tmp_path, 2, *values, epoch=epoch)
    [problem] = compare_replicas({1: one, 2: other}, ("t",), 1)
    assert problem.startswith("t-0 differs on 1 and 2: offset 2 of epoch 0" if len(values) == 3 else "t-0 differs")


def test_the_check_compares_acknowledged_and_consumed_records_with_the_log() -> None:
    stored = {(0, 0): "0", (0, 1): "1"}
    whole = Verified(acknowledged=dict(stored), consumed=list(stored.items()))
    assert judge(whole, stored) == []
    assert "was acknowledged at" in judge(whole, {(0, 0): "0"})[0]
    assert "is there 2 times" in judge(whole, {**stored, (0, 2): "1"})[0]
    assert "were not consumed" in judge(Verified(acknowledged=stored), stored)[0]
