"""Attacks with requests to group and transaction coordinators."""

from compat_tests.starvation.attack import MANY, SMALL, SOME, TIMEOUT_MS, UNKNOWN, Attack, most_of
from compat_tests.starvation.scene import FIRST
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

METADATA = "m" * 1000
"""Metadata of a committed offset; the default of offset.metadata.max.bytes is 4096."""


def list_groups(scene):
    return [(ListGroupsRequest(), 5)]


def describe_groups_many(scene):
    return [(DescribeGroupsRequest(groups=list(UNKNOWN)), 5)]


def describe_groups_all(scene):
    return [(DescribeGroupsRequest(groups=list(scene.groups)), 5)]


def find_coordinators(scene):
    return [(FindCoordinatorRequest(key_type=0, coordinator_keys=list(UNKNOWN)), 4)]


def join_group(scene):
    """Return a join of a new member with many protocols."""
    names = UNKNOWN[: most_of(JoinGroupRequest)]
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in names]
    request = JoinGroupRequest(
        group_id="joined-by-the-attacker",
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    return [(request, 9)]


def sync_group(scene):
    assignments = [SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in UNKNOWN]
    request = SyncGroupRequest(
        group_id=scene.groups[0], generation_id=1, member_id="nobody", assignments=assignments, protocol_type="consumer"
    )
    return [(request, 4)]


def leave_group(scene):
    members = [MemberIdentity(member_id=name) for name in UNKNOWN]
    return [(LeaveGroupRequest(group_id=scene.groups[0], members=members), 5)]


def heartbeat(scene):
    return [(HeartbeatRequest(group_id=scene.groups[0], generation_id=1, member_id="nobody"), 4)]


def delete_groups(scene):
    return [(DeleteGroupsRequest(groups_names=list(UNKNOWN)), 2)]


def committed(index):
    return OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")


def commit(scene, topics):
    return [(OffsetCommitRequest(group_id=scene.groups[0], member_id="", topics=topics), 8)]


def offset_commit_many(scene):
    return commit(scene, [OffsetCommitRequestTopic(name=FIRST, partitions=[committed(index) for index in range(MANY)])])


def offset_commit_all(scene):
    """Return a commit of one offset of each topic, with long metadata."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=METADATA)
    return commit(scene, [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in scene.topics])


def offset_fetch_many(scene):
    topics = [OffsetFetchRequestTopics(name=FIRST, partition_indexes=list(range(MANY)))]
    return [(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=scene.groups[0], topics=topics)]), 9)]


def offset_fetch_all(scene):
    """Return a request for all offsets of all groups."""
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in scene.groups]
    return [(OffsetFetchRequest(groups=groups), 9)]


def offset_fetch_stable(scene):
    """Return a request for many groups that do not exist."""
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in UNKNOWN]
    return [(OffsetFetchRequest(groups=groups, require_stable=True), 9)]


def offset_delete(scene):
    partitions = [OffsetDeleteRequestPartition(partition_index=index + 1) for index in range(MANY)]
    topics = [OffsetDeleteRequestTopic(name=FIRST, partitions=partitions)]
    return [(OffsetDeleteRequest(group_id=scene.groups[1], topics=topics), 0)]


def init_producer_id(scene):
    return [(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS), 4)]


def init_transactional_id(scene):
    """Return an InitProducerId request that bumps the epoch of the same transactional id each time."""
    return [(InitProducerIdRequest(transactional_id="of-the-attacker", transaction_timeout_ms=TIMEOUT_MS), 4)]


def add_partitions(scene, topics):
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=scene.transactional_id,
        v3_and_below_producer_id=scene.producer_id,
        v3_and_below_producer_epoch=scene.producer_epoch,
        v3_and_below_topics=topics,
    )
    return [(request, 3)]


def add_partitions_many(scene):
    return add_partitions(scene, [AddPartitionsToTxnTopic(name=FIRST, partitions=list(range(MANY)))])


def add_partitions_all(scene):
    return add_partitions(scene, [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in scene.topics])


def verify_transactions(scene):
    """Return a broker's request to verify that partitions are in transactions."""
    topics = [AddPartitionsToTxnTopic(name=FIRST, partitions=[0])]
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=1, producer_epoch=0, verify_only=True, topics=topics
        )
        for name in UNKNOWN[:SOME]
    ]
    return [(AddPartitionsToTxnRequest(transactions=transactions), 4)]


def add_offsets(scene):
    request = AddOffsetsToTxnRequest(
        transactional_id=scene.transactional_id,
        producer_id=scene.producer_id,
        producer_epoch=scene.producer_epoch,
        group_id=scene.groups[2],
    )
    return [(request, 3)]


def end_txn(scene):
    """Return a request to end a transaction that is not open."""
    return [(EndTxnRequest(transactional_id="unknown", producer_id=1, producer_epoch=0, committed=True), 3)]


def txn_offset_commit(scene):
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
        for index in range(MANY)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=scene.transactional_id,
        group_id=scene.groups[2],
        producer_id=scene.producer_id,
        producer_epoch=scene.producer_epoch,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=FIRST, partitions=partitions)],
    )
    return [(request, 3)]


def write_markers(scene):
    """Return markers for a partition that does not exist."""
    topics = [WritableTxnMarkerTopic(name="unknown", partition_indexes=[0])]
    markers = [
        WritableTxnMarker(
            producer_id=number, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
        )
        for number in range(SOME)
    ]
    return [(WriteTxnMarkersRequest(markers=markers), 1)]


def describe_transactions(scene):
    return [(DescribeTransactionsRequest(transactional_ids=list(UNKNOWN)), 0)]


def list_transactions(scene):
    return [(ListTransactionsRequest(state_filters=[], producer_id_filters=list(range(MANY))), 0)]


ATTACKS = (
    Attack("ListGroups", list_groups, is_short=True),
    Attack("DescribeGroups, many unknown groups", describe_groups_many, is_short=True),
    Attack("DescribeGroups, all groups", describe_groups_all),
    Attack("FindCoordinator, many groups", find_coordinators, is_short=True),
    Attack("JoinGroup, many protocols", join_group),
    Attack("SyncGroup, many assignments", sync_group),
    Attack("LeaveGroup, many members", leave_group),
    Attack("Heartbeat", heartbeat, together=SMALL),
    Attack("DeleteGroups, many unknown groups", delete_groups),
    Attack("OffsetCommit, many partitions", offset_commit_many),
    Attack("OffsetCommit, all topics", offset_commit_all, is_short=True),
    Attack("OffsetFetch, many partitions", offset_fetch_many),
    Attack("OffsetFetch, all groups", offset_fetch_all),
    Attack("OffsetFetch, many unknown groups", offset_fetch_stable),
    Attack("OffsetDelete, many partitions", offset_delete),
    Attack("InitProducerId", init_producer_id, together=SMALL),
    Attack("InitProducerId, one transactional id", init_transactional_id),
    Attack("AddPartitionsToTxn, many partitions", add_partitions_many),
    Attack("AddPartitionsToTxn, all topics", add_partitions_all),
    Attack("AddPartitionsToTxn, many transactions to verify", verify_transactions),
    Attack("AddOffsetsToTxn", add_offsets, together=SMALL),
    Attack("EndTxn", end_txn, together=SMALL),
    Attack("TxnOffsetCommit, many partitions", txn_offset_commit),
    Attack("WriteTxnMarkers, many markers", write_markers),
    Attack("DescribeTransactions, many ids", describe_transactions),
    Attack("ListTransactions, many producer ids", list_transactions),
)
