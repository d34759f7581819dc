"""Leader's decisions: the high watermark, and additions to and removals from the in-sync set (R3, R9, R10, R17)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.cluster.replication.world import LAG_MAX_MS, KnownPeers, Watching, append, fetched, image, replica


@pytest.fixture
def peers() -> KnownPeers:
    return KnownPeers()


@pytest.fixture
def leader(tmp_path: Path, peers: KnownPeers) -> Partition:
    """Return the leader of epoch 0, with brokers 2 and 3 in sync and three records."""
    partition = replica(tmp_path, image(), peers)
    append(partition, b"a", b"b", b"c")
    return partition


def test_records_that_all_in_sync_replicas_have_are_committed(leader: Partition) -> None:
    assert leader.high_watermark == 0
    fetched(leader, 2, 3)
    assert leader.high_watermark == 0
    fetched(leader, 3, 2)
    assert leader.high_watermark == 2
    fetched(leader, 3, 3)
    assert leader.high_watermark == 3


def test_nothing_is_committed_until_every_in_sync_replica_has_fetched(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    append(partition, b"a")
    assert partition.high_watermark == 0
    fetched(partition, 3, 1)
    assert partition.high_watermark == 0


def test_a_fetch_from_a_lower_offset_does_not_lower_the_high_watermark(leader: Partition) -> None:
    for broker in (2, 3):
        fetched(leader, broker, 3)
    fetched(leader, 2, 1)
    assert leader.high_watermark == 3
    assert leader.followers is not None
    assert leader.followers.follower(2).log_end_offset == 1


def test_a_leader_alone_in_sync_commits_what_it_appends(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1,)), peers)
    append(partition, b"a", b"b")
    assert partition.high_watermark == 2


def test_a_set_below_the_minimum_commits_nothing(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1,)), peers, min_insync_replicas=2)
    append(partition, b"a")
    assert partition.high_watermark == 0
    with pytest.raises(KafkaError) as raised:
        partition.append(b"", -1)
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 1


def test_a_leader_takes_over_what_it_knew_to_be_committed(tmp_path: Path, peers: KnownPeers) -> None:
    append(replica(tmp_path, image((1,)), peers), b"a", b"b", b"c")
    again = replica(tmp_path, image((1, 2), leader_epoch=1), peers, high_watermark=2)
    assert (again.high_watermark, again.log.log_end_offset) == (2, 3)
    assert replica(tmp_path, image((1, 2), leader_epoch=2), peers, high_watermark=9).high_watermark == 3


def test_a_follower_joins_when_it_has_what_is_committed(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    append(partition, b"a", b"b")
    fetched(partition, 2, 2)
    fetched(partition, 3, 1)
    assert not peers.sent_proposals
    fetched(partition, 3, 2)
    assert peers.sent_proposals == [partition]
    assert partition.followers is not None
    proposal = partition.followers.proposal
    assert proposal is not None
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2, 3), (101, 102, 103))


def test_a_follower_joins_only_with_all_that_earlier_leaders_wrote(tmp_path: Path, peers: KnownPeers) -> None:
    append(replica(tmp_path, image((1,)), peers), b"a", b"b")
    partition = replica(tmp_path, image((1, 2), leader_epoch=1), peers, high_watermark=1)
    fetched(partition, 3, 1)
    assert not peers.sent_proposals
    fetched(partition, 3, 2)
    assert peers.sent_proposals == [partition]


def test_another_process_than_the_one_that_lives_does_not_join(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    fetched(partition, 3, 0, broker_epoch=104)
    assert not peers.sent_proposals


def test_a_fetch_with_a_stale_broker_epoch_is_not_counted(leader: Partition, peers: KnownPeers) -> None:
    for broker in (2, 3):
        with pytest.raises(KafkaError) as raised:
            fetched(leader, broker, 3, broker_epoch=99)
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.high_watermark == 0
    assert not peers.sent_proposals
    assert leader.followers is not None
    assert leader.followers.follower(2).log_end_offset == -1


def test_a_fenced_broker_does_not_join(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    del peers.epochs[3]
    fetched(partition, 3, 0, broker_epoch=103)
    assert not peers.sent_proposals


def test_a_proposed_in_sync_replica_counts_before_the_controller_decides(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    fetched(partition, 3, 0)
    append(partition, b"a")
    fetched(partition, 2, 1)
    assert partition.high_watermark == 0
    fetched(partition, 3, 1)
    assert partition.high_watermark == 1


def test_a_joining_replica_counts_for_the_high_watermark(tmp_path: Path, peers: KnownPeers) -> None:
    append(replica(tmp_path, image((1,)), peers), b"a")
    partition = replica(tmp_path, image((1, 2), leader_epoch=1), peers)
    fetched(partition, 3, 0)  # too low for a proposal to add it
    append(partition, b"b")
    fetched(partition, 3, 1)
    followers = partition.followers
    assert followers is not None
    proposal, followers.proposal = followers.proposal, None
    append(partition, b"c")
    fetched(partition, 2, 3)
    assert partition.high_watermark == 1
    peers.clock.now_ms += int(LAG_MAX_MS) + 1
    assert proposal is not None
    followers.proposal = proposal
    followers.rejected(proposal)
    partition.propose_isr_shrink()
    fetched(partition, 2, 3)
    assert partition.high_watermark == 3


def test_a_follower_behind_for_replica_lag_time_max_is_removed_from_the_isr(
    leader: Partition, peers: KnownPeers
) -> None:
    fetched(leader, 2, 3)
    peers.clock.now_ms += int(LAG_MAX_MS)
    leader.propose_isr_shrink()
    assert not peers.sent_proposals
    fetched(leader, 2, 3)
    peers.clock.now_ms += 1
    leader.propose_isr_shrink()
    assert peers.sent_proposals == [leader]
    assert leader.followers is not None
    assert leader.followers.proposal is not None
    assert leader.followers.proposal.isr == (1, 2)
    assert leader.high_watermark == 0, "it counts until the controller has left it out"


def test_a_follower_at_the_log_end_is_never_removed_from_the_isr(leader: Partition, peers: KnownPeers) -> None:
    fetched(leader, 2, 3)
    fetched(leader, 3, 3)
    peers.clock.now_ms += 100 * int(LAG_MAX_MS)
    leader.propose_isr_shrink()
    assert not peers.sent_proposals


def test_a_busy_leader_does_not_make_a_follower_late(leader: Partition, peers: KnownPeers) -> None:
    for _ in range(20):
        peers.clock.now_ms += int(LAG_MAX_MS / 2)
        end = leader.log.log_end_offset
        append(leader, b"more")
        for broker in (2, 3):
            fetched(leader, broker, end)
    leader.propose_isr_shrink()
    assert not peers.sent_proposals


def test_only_one_isr_change_is_proposed_at_a_time(leader: Partition, peers: KnownPeers) -> None:
    peers.clock.now_ms += int(LAG_MAX_MS) + 1
    leader.propose_isr_shrink()
    leader.propose_isr_shrink()
    assert peers.sent_proposals == [leader]


def test_a_metadata_update_completes_an_isr_proposal(leader: Partition, peers: KnownPeers) -> None:
    fetched(leader, 2, 3)
    peers.clock.now_ms += int(LAG_MAX_MS) + 1
    leader.propose_isr_shrink()
    leader.update(image((1, 2), partition_epoch=1), is_led=True)
    assert leader.followers is not None
    assert leader.followers.proposal is None
    assert leader.high_watermark == 3


def test_metadata_of_the_same_partition_epoch_keeps_the_isr_proposal(leader: Partition, peers: KnownPeers) -> None:
    peers.clock.now_ms += int(LAG_MAX_MS) + 1
    leader.propose_isr_shrink()
    assert leader.followers is not None
    proposal = leader.followers.proposal
    leader.update(image(), is_led=True)
    assert leader.followers.proposal is proposal is not None


def test_a_rejected_proposal_leaves_all_as_it_was(leader: Partition, peers: KnownPeers) -> None:
    peers.clock.now_ms += int(LAG_MAX_MS) + 1
    leader.propose_isr_shrink()
    followers = leader.followers
    assert followers is not None
    proposal = followers.proposal
    assert proposal is not None
    followers.rejected(replace(proposal))
    proposals = [followers.proposal]  # the response to another proposal changes nothing
    followers.rejected(proposal)
    proposals.append(followers.proposal)
    assert proposals == [proposal, None]
    assert len(followers._maximal) == 3


def test_a_new_leader_epoch_resets_the_follower_offsets(leader: Partition) -> None:
    for broker in (2, 3):
        fetched(leader, broker, 3)
    leader.update(image(leader_epoch=1, partition_epoch=1), is_led=True)
    assert leader.followers is not None
    assert leader.followers.follower(2).log_end_offset == -1
    assert leader.high_watermark == 3


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_fetch_from_a_broker_that_is_no_replica_is_rejected(leader: Partition, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        leader.follower_fetched(4, offset=3, log_start_offset=0, broker_epoch=1, epoch=epoch)
    assert raised.value.code is code
    assert leader.high_watermark == 0


def test_a_follower_ahead_of_the_leader_is_out_of_range(leader: Partition) -> None:
    with pytest.raises(KafkaError) as raised:
        fetched(leader, 2, 4)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.followers is not None
    assert leader.followers.follower(2).log_end_offset == -1


def test_removed_replicas_are_not_waited_for(leader: Partition) -> None:
    fetched(leader, 2, 3)
    leader.update(image((1, 2), replicas=(1, 2), partition_epoch=1), is_led=True)
    assert leader.high_watermark == 3
    leader.update(image((1,), replicas=(1,), partition_epoch=2), is_led=True)
    append(leader, b"d")
    assert (leader.followers, leader.high_watermark) == (None, 4)


def test_a_replica_that_is_added_is_followed(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1,), replicas=(1,)), peers)
    append(partition, b"a")
    partition.update(image((1,), replicas=(1, 2), partition_epoch=1), is_led=True)
    append(partition, b"b")
    assert partition.high_watermark == 2
    fetched(partition, 2, 2)
    assert peers.sent_proposals == [partition]


def test_consumers_are_woken_by_commits_and_followers_by_appends(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2), replicas=(1, 2)), peers)
    reader, follower = Watching(), Watching()
    partition.wait(reader)
    partition.wait(follower, for_log_end=True)
    append(partition, b"a", b"b")
    size = partition.log.size_in_bytes
    assert (sum(follower.sizes), reader.sizes) == (size, [])
    fetched(partition, 2, 2)
    assert sum(reader.sizes) == size
    partition.stop_waiting(reader)
    partition.stop_waiting(follower)
    append(partition, b"c")
    assert (sum(follower.sizes), sum(reader.sizes)) == (size, size)


@pytest.mark.parametrize(
    "after",
    [
        image((1, 2), partition_epoch=1),
        image((1, 2), replicas=(1, 2), partition_epoch=1),
        image((1,), replicas=(1,), partition_epoch=1),
        image((1, 2), leader_epoch=1, partition_epoch=1),
    ],
)
def test_a_change_of_replicas_wakes_requests_that_wait_for_followers(leader: Partition, after: PartitionImage) -> None:
    waiting = Watching()
    leader.wait(waiting, for_log_end=True)
    leader.update(after, is_led=True)
    assert 0 in waiting.sizes


def test_brokers_that_are_fenced_are_not_waited_for(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2)), peers)
    append(partition, b"a")
    fetched(partition, 2, 1)
    fetched(partition, 3, 0)
    partition.delete_records_before(1)
    assert partition.low_watermark == 0
    waiting = Watching()
    partition.wait(waiting, for_log_end=True)
    del peers.epochs[2], peers.epochs[3]
    peers.leaving = {2}
    partition.live_replicas_changed()
    assert waiting.sizes == [0]
    assert partition.low_watermark == 0, "a broker that is about to leave still lives"
    peers.leaving = set()
    assert partition.low_watermark == 1


def test_many_appends_that_wait_take_no_memory(tmp_path: Path, peers: KnownPeers) -> None:
    partition = replica(tmp_path, image((1, 2), replicas=(1, 2)), peers)
    reader = Watching()
    partition.wait(reader)
    append(partition, *[b"x"] * 200)
    assert partition.followers is not None
    assert len(partition.followers._uncommitted) <= 64
    fetched(partition, 2, 200)
    assert sum(reader.sizes) == partition.log.size_in_bytes
