"""Follower's handling of the leader's responses: appends, truncations, high watermark (R6, R7, R8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.partitions.divergence import EpochEnd
from kwire.cluster.partitions.partition import Partition
from kwire.log.positions import POSITIONS_KEPT
from tests.cluster.replication.world import KnownPeers, Watching, append, copy, image, replica, values_of
from tests.log.support import batch


@pytest.fixture
def leader(tmp_path: Path) -> Partition:
    partition = replica(tmp_path, image((1,)), KnownPeers(1))
    append(partition, b"a", b"b", b"c")
    return partition


@pytest.fixture
def follower(tmp_path: Path) -> Partition:
    return replica(tmp_path, image((1,)), KnownPeers(2))


def follow(partition: Partition, *, leader: int, epoch: int) -> None:
    partition.update(image(leader=leader, leader_epoch=epoch, partition_epoch=epoch), is_led=False)


def lead(partition: Partition, *, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> None:
    new = image(isr, leader=partition._peers.broker_id, leader_epoch=epoch, partition_epoch=epoch)
    partition.update(new, is_led=True)


def agree(leader: Partition, follower: Partition) -> int:
    """Truncate the follower as its fetches would; return the number of truncations."""
    for cuts in range(10):
        end, epoch = follower.log.log_end_offset, follower.log.leader_epochs.latest_epoch
        leaders = EpochEnd(*leader.log.epoch_end_offset(epoch))
        if leaders.epoch >= epoch and leaders.end_offset >= end:
            return cuts
        follower.truncate_as_follower(leaders)
    raise AssertionError("they never agree")


def test_a_follower_has_the_leaders_bytes_and_its_high_watermark(leader: Partition, follower: Partition) -> None:
    copy(leader, follower)
    assert values_of(follower) == [b"a", b"b", b"c"]
    assert follower.high_watermark == 3
    assert follower.log.leader_epochs.entries() == leader.log.leader_epochs.entries()


def test_the_high_watermark_is_within_the_followers_log(follower: Partition) -> None:
    follower.append_as_follower(b"", leader_epoch=0, high_watermark=3, log_start_offset=0)
    assert follower.high_watermark == 0


def test_the_log_start_follows_the_leaders(leader: Partition, follower: Partition) -> None:
    leader.delete_records_before(2)
    follower.append_as_follower(
        leader.log.read(2, 1000, min_one_batch=True), leader_epoch=0, high_watermark=3, log_start_offset=2
    )
    assert follower.log.log_start_offset == 2


def test_a_log_restarted_inside_a_batch_accepts_the_whole_batch(leader: Partition, follower: Partition) -> None:
    """DeleteRecords has moved the leader's start into a batch of three records while the follower was offline."""
    leader.append(batch(b"d", b"e", b"f"), 3)
    leader.delete_records_before(4)
    follower.restart_log_at(4)
    copy(leader, follower)
    log = follower.log
    assert (log.log_start_offset, log.log_end_offset, follower.high_watermark) == (4, 6, 6)
    assert log.read(4, 1000) == leader.log.read(4, 1000)


def test_records_of_an_earlier_leader_epoch_are_not_appended(leader: Partition, follower: Partition) -> None:
    follow(follower, leader=3, epoch=1)
    with pytest.raises(AssertionError):
        copy(leader, follower)
    assert follower.log.log_end_offset == 0


def test_a_deposed_leader_truncates_records_that_only_it_has(leader: Partition, follower: Partition) -> None:
    copy(leader, follower)
    lead(follower, epoch=1)
    append(leader, b"lost")
    append(follower, b"d", b"e")
    follow(leader, leader=2, epoch=1)
    assert agree(follower, leader) == 1
    copy(follower, leader)
    assert values_of(leader) == [b"a", b"b", b"c", b"d", b"e"]


def test_an_epoch_without_records_is_forgotten(leader: Partition, follower: Partition) -> None:
    copy(leader, follower)
    lead(leader, epoch=1)
    lead(follower, epoch=2)
    append(follower, b"d")
    follow(leader, leader=2, epoch=2)
    assert agree(follower, leader) == 1
    assert leader.log.leader_epochs.latest_epoch == 0
    copy(follower, leader)
    assert values_of(leader) == [b"a", b"b", b"c", b"d"]


def test_logs_that_diverge_twice_are_truncated_step_by_step(tmp_path: Path) -> None:
    one, two = replica(tmp_path, image((1,)), KnownPeers(1)), replica(tmp_path, image((1,)), KnownPeers(2))
    append(one, b"0")
    copy(one, two)
    lead(two, epoch=1, isr=(2,))
    append(two, b"1 of two", b"1 of two")
    lead(one, epoch=2, isr=(1,))
    append(one, b"2 of one")
    lead(two, epoch=3, isr=(2,))
    append(two, b"3 of two")
    lead(one, epoch=4, isr=(1,))
    append(one, b"4 of one", b"4 of one")
    follow(two, leader=1, epoch=4)
    agree(one, two)
    copy(one, two)
    assert values_of(two) == values_of(one)
    assert two.log.leader_epochs.entries() == one.log.leader_epochs.entries()


def test_a_truncation_below_the_high_watermark_is_logged(
    leader: Partition, follower: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    copy(leader, follower)
    follow(follower, leader=3, epoch=1)
    follower.truncate_to_leaders_end(1)
    assert (follower.log.log_end_offset, follower.high_watermark) == (1, 1)
    assert "below its high watermark 3" in caplog.text


def test_a_follower_restarts_its_log_at_the_leaders_log_start(leader: Partition, follower: Partition) -> None:
    copy(leader, follower)
    follow(follower, leader=3, epoch=1)
    follower.restart_log_at(50)
    assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.high_watermark) == (50, 50, 50)


def test_a_fetch_at_a_follower_is_notified_of_the_committed_bytes(leader: Partition, follower: Partition) -> None:
    reader = Watching()
    follower.wait(reader)
    follower.append_as_follower(
        leader.log.read(0, 2**30), leader_epoch=0, high_watermark=0, log_start_offset=0
    )  # the leader commits them on this follower's next fetch
    assert reader.sizes == []
    each = follower.log.size_in_bytes // 3
    for high_watermark in (1, 3, 3):
        follower.append_as_follower(b"", leader_epoch=0, high_watermark=high_watermark, log_start_offset=0)
    assert reader.sizes == [each, 2 * each]
    append(leader, b"d" * 1000)
    copy(leader, follower)
    assert reader.sizes == [each, 2 * each, follower.log.size_in_bytes - 3 * each], "committed as it comes"


def test_a_fetch_at_a_follower_rereads_when_the_committed_bytes_are_unknown(
    leader: Partition, follower: Partition
) -> None:
    """So many batches arrived at once that the position of the first one is no longer in memory."""
    append(leader, *[b"v"] * POSITIONS_KEPT)
    reader = Watching()
    follower.wait(reader)
    copy(leader, follower)
    assert (follower.high_watermark, reader.sizes) == (3 + POSITIONS_KEPT, [0])


def test_unflushed_records_are_not_committed_and_delay_the_next_fetch(tmp_path: Path, leader: Partition) -> None:
    class Requests:
        def __init__(self) -> None:
            self.requested: list[Partition] = []

        def request(self, partition: Partition) -> None:
            self.requested.append(partition)

    follower = replica(tmp_path, image((1,)), KnownPeers(2), flush_messages=1)
    requests = follower._group_commit = Requests()  # type: ignore[assignment]
    settled: list[bool] = []
    follower.on_log_durable = lambda: settled.append(follower.waits_for_flush)
    copy(leader, follower)
    assert (follower.high_watermark, follower.waits_for_flush) == (0, True)
    assert requests.requested == [follower]
    follower.log.flush()
    follower.flushed()
    assert (follower.high_watermark, settled) == (3, [False])


def test_a_deposed_leader_commits_nothing_more(leader: Partition) -> None:
    append(leader, b"d")
    lead(leader, epoch=1)
    append(leader, b"e")
    follow(leader, leader=2, epoch=2)
    assert leader.high_watermark == 4
    leader.flushed()
    assert leader.high_watermark == 4
