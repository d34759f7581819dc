"""Invalid requests to controllers, each with the error codes of Apache Kafka 4.3.1.

If Kafka's controller fails or exits on a request, the codes are those that it uses for such a case elsewhere;
docs/differences.md lists these requests.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    SnapshotId,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.protocol.messages.update_features import UpdateFeaturesRequest
from kwire.protocol.messages.update_raft_voter import (
    UpdateRaftVoterKRaftVersionFeature,
    UpdateRaftVoterRequest,
)
from kwire.protocol.messages.vote import VoteRequest
from kwire.server.other_nodes.envelopes import encode_principal
from kwire.simulation.controllers import CLUSTER_ID
from tests.server.controller_requests import (
    DIRECTORY,
    VALIDATED,
    World,
    add_voter,
    alter_partition,
    another,
    assign,
    begin_epoch,
    controller_registration,
    describe_quorum,
    end_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    heartbeat,
    inside,
    producer_ids,
    registration,
    remove_voter,
    update_voter,
    vote,
    whole_envelope,
)
from tests.support.requests import create_request


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    make: Callable[[World], Any]
    codes: list[ErrorCode]
    """All codes in the response that are not NONE."""
    version: int = -1
    """Request version; the newest by default."""
    is_to_other: bool = False
    """True if the request goes to the controller that is not the leader."""


def codes_of(answer: Any) -> Iterator[ErrorCode]:
    """Yield the codes in a response in their order, without NONE."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes_of(each)
    elif dataclasses.is_dataclass(answer):
        for each in dataclasses.fields(answer):
            value = getattr(answer, each.name)
            if each.name == "error_code" and value != ErrorCode.NONE:
                yield ErrorCode(value)
            else:
                yield from codes_of(value)


OTHER = "another-cluster-000000"
CASES = (
    Case("fetch of another cluster", lambda w: fetch(w, cluster_id=OTHER), [ErrorCode.INCONSISTENT_CLUSTER_ID]),
    Case(
        "fetch without a cluster",
        lambda w: fetch(w, cluster_id=None),
        [],
    ),
    Case(
        "fetch in a newer epoch", lambda w: fetch(w, current_leader_epoch=w.epoch + 9), [ErrorCode.UNKNOWN_LEADER_EPOCH]
    ),
    Case(
        "fetch in an older epoch",
        lambda w: fetch(w, current_leader_epoch=0, last_fetched_epoch=0),
        [ErrorCode.FENCED_LEADER_EPOCH],
    ),
    Case("fetch of another topic", lambda w: fetch(w, topic_id=UUID(int=9)), [ErrorCode.INVALID_REQUEST]),
    Case("fetch of another partition", lambda w: fetch(w, partition=1), [ErrorCode.INVALID_REQUEST]),
    Case("fetch from a negative offset", lambda w: fetch(w, fetch_offset=-1), [ErrorCode.INVALID_REQUEST]),
    Case("fetch after a negative epoch", lambda w: fetch(w, last_fetched_epoch=-1), [ErrorCode.INVALID_REQUEST]),
    Case("fetch in a negative epoch", lambda w: fetch(w, current_leader_epoch=-1), [ErrorCode.INVALID_REQUEST]),
    Case("fetch from far beyond", lambda w: fetch(w, fetch_offset=1 << 40, last_fetched_epoch=w.epoch), []),
    Case("fetch of nothing", lambda w: FetchRequest(cluster_id=CLUSTER_ID), [ErrorCode.INVALID_REQUEST]),
    Case("fetch at a follower", fetch, [ErrorCode.NOT_LEADER_OR_FOLLOWER], is_to_other=True),
    Case(
        "snapshot of another cluster",
        lambda w: fetch_snapshot(w, cluster_id=OTHER),
        [ErrorCode.INCONSISTENT_CLUSTER_ID],
    ),
    Case("snapshot of another topic", lambda w: fetch_snapshot(w, topic="t"), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    Case(
        "snapshot of another partition",
        lambda w: fetch_snapshot(w, partition=1),
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ),
    Case("snapshot of nothing", lambda w: FetchSnapshotRequest(cluster_id=CLUSTER_ID), [ErrorCode.INVALID_REQUEST]),
    Case(
        "snapshot that is unknown",
        lambda w: fetch_snapshot(w, snapshot_id=SnapshotId(end_offset=5, epoch=0)),
        [ErrorCode.SNAPSHOT_NOT_FOUND],
    ),
    Case(
        "snapshot of another epoch",
        lambda w: fetch_snapshot(w, snapshot_id=SnapshotId(end_offset=0, epoch=7)),
        [ErrorCode.SNAPSHOT_NOT_FOUND],
    ),
    Case(
        "snapshot before the beginning",
        lambda w: fetch_snapshot(w, snapshot_id=SnapshotId(end_offset=-1, epoch=-1)),
        [ErrorCode.SNAPSHOT_NOT_FOUND],
    ),
    Case(
        "snapshot from beyond its end", lambda w: fetch_snapshot(w, position=1 << 40), [ErrorCode.POSITION_OUT_OF_RANGE]
    ),
    Case("snapshot from before it", lambda w: fetch_snapshot(w, position=-1), [ErrorCode.POSITION_OUT_OF_RANGE]),
    Case(
        "snapshot in a newer epoch",
        lambda w: fetch_snapshot(w, current_leader_epoch=w.epoch + 9),
        [ErrorCode.UNKNOWN_LEADER_EPOCH],
    ),
    Case(
        "snapshot in an older epoch",
        lambda w: fetch_snapshot(w, current_leader_epoch=w.epoch - 1),
        [ErrorCode.FENCED_LEADER_EPOCH],
    ),
    Case("snapshot at a follower", fetch_snapshot, [ErrorCode.NOT_LEADER_OR_FOLLOWER], is_to_other=True),
    Case("vote in another cluster", lambda w: vote(w, cluster_id=OTHER), [ErrorCode.INCONSISTENT_CLUSTER_ID]),
    Case("vote of another topic", lambda w: vote(w, topic="t"), [ErrorCode.INVALID_REQUEST]),
    Case("vote of nothing", lambda w: VoteRequest(cluster_id=CLUSTER_ID), [ErrorCode.INVALID_REQUEST]),
    Case("vote asked of another voter", lambda w: vote(w, voter_id=55), [ErrorCode.INVALID_VOTER_KEY]),
    Case(
        "vote asked of another directory",
        lambda w: vote(w, voter_directory_id=UUID(int=9)),
        [ErrorCode.INVALID_VOTER_KEY],
    ),
    Case("vote in a negative epoch", lambda w: vote(w, replica_epoch=-1), [ErrorCode.INVALID_REQUEST]),
    Case(
        "vote in an older epoch",
        lambda w: vote(w, replica_epoch=w.epoch - 1, last_offset_epoch=0, last_offset=0),
        [ErrorCode.FENCED_LEADER_EPOCH],
    ),
    Case("vote with a log that ends nowhere", lambda w: vote(w, last_offset=-1), [ErrorCode.INVALID_REQUEST]),
    Case(
        "vote with a log from the future", lambda w: vote(w, last_offset_epoch=w.epoch + 9), [ErrorCode.INVALID_REQUEST]
    ),
    Case("vote for who is no voter", lambda w: vote(w, replica_id=55, replica_directory_id=UUID(int=9)), []),
    Case("vote for another directory", lambda w: vote(w, replica_directory_id=UUID(int=9)), []),
    Case(
        "epoch begun in another cluster",
        lambda w: begin_epoch(w, cluster_id=OTHER),
        [ErrorCode.INCONSISTENT_CLUSTER_ID],
        is_to_other=True,
    ),
    Case(
        "epoch begun at another voter",
        lambda w: begin_epoch(w, voter_id=55),
        [ErrorCode.INVALID_VOTER_KEY],
        is_to_other=True,
    ),
    Case(
        "epoch begun in another directory",
        lambda w: begin_epoch(w, voter_directory_id=UUID(int=9)),
        [ErrorCode.INVALID_VOTER_KEY],
        is_to_other=True,
    ),
    Case(
        "epoch that is over begun",
        lambda w: begin_epoch(w, leader_epoch=w.epoch - 1),
        [ErrorCode.FENCED_LEADER_EPOCH],
        is_to_other=True,
    ),
    Case(
        "epoch begun by another leader",
        lambda w: begin_epoch(w, leader_id=w.other_id),
        [ErrorCode.INVALID_REQUEST],
        is_to_other=True,
    ),
    Case(
        "epoch ended in another cluster",
        lambda w: end_epoch(w, cluster_id=OTHER),
        [ErrorCode.INCONSISTENT_CLUSTER_ID],
        is_to_other=True,
    ),
    Case(
        "epoch ended by another leader",
        lambda w: end_epoch(w, leader_id=w.other_id),
        [ErrorCode.INVALID_REQUEST],
        is_to_other=True,
    ),
    Case(
        "epoch that is over ended",
        lambda w: end_epoch(w, leader_epoch=w.epoch - 1),
        [ErrorCode.FENCED_LEADER_EPOCH],
        is_to_other=True,
    ),
    Case(
        "epoch of another topic ended",
        lambda w: end_epoch(w, topic="t"),
        [ErrorCode.INVALID_REQUEST],
        is_to_other=True,
    ),
    Case(
        "voter added to another cluster", lambda w: add_voter(w, cluster_id=OTHER), [ErrorCode.INCONSISTENT_CLUSTER_ID]
    ),
    Case("voter added twice", add_voter, [ErrorCode.DUPLICATE_VOTER]),
    Case(
        "voter added in another directory",
        lambda w: add_voter(w, voter_directory_id=UUID(int=9)),
        [ErrorCode.DUPLICATE_VOTER],
    ),
    Case("voter without an id added", lambda w: add_voter(w, voter_id=-1), [ErrorCode.INVALID_REQUEST]),
    Case(
        "voter without a listener added", lambda w: add_voter(w, voter_id=55, listeners=[]), [ErrorCode.INVALID_REQUEST]
    ),
    Case(
        "voter without a directory added",
        lambda w: add_voter(w, voter_id=55, voter_directory_id=UUID(int=0)),
        [ErrorCode.INVALID_REQUEST],
    ),
    Case("voter added at a follower", add_voter, [ErrorCode.NOT_LEADER_OR_FOLLOWER], is_to_other=True),
    Case(
        "voter removed from another cluster",
        lambda w: remove_voter(w, cluster_id=OTHER),
        [ErrorCode.INCONSISTENT_CLUSTER_ID],
    ),
    Case("voter removed that is none", lambda w: remove_voter(w, voter_id=55), [ErrorCode.VOTER_NOT_FOUND]),
    Case(
        "voter of another directory removed",
        lambda w: remove_voter(w, voter_directory_id=UUID(int=9)),
        [ErrorCode.VOTER_NOT_FOUND],
    ),
    Case("voter removed at a follower", remove_voter, [ErrorCode.NOT_LEADER_OR_FOLLOWER], is_to_other=True),
    Case(
        "voter updated in another cluster",
        lambda w: update_voter(w, cluster_id=OTHER),
        [ErrorCode.INCONSISTENT_CLUSTER_ID],
    ),
    Case(
        "voter updated in a newer epoch",
        lambda w: update_voter(w, current_leader_epoch=w.epoch + 9),
        [ErrorCode.UNKNOWN_LEADER_EPOCH],
    ),
    Case(
        "voter updated in an older epoch",
        lambda w: update_voter(w, current_leader_epoch=w.epoch - 1),
        [ErrorCode.FENCED_LEADER_EPOCH],
    ),
    Case(
        "voter of another directory updated",
        lambda w: update_voter(w, voter_directory_id=UUID(int=9)),
        [ErrorCode.VOTER_NOT_FOUND],
    ),
    Case("voter updated without its listener", lambda w: update_voter(w, listeners=[]), [ErrorCode.INVALID_REQUEST]),
    Case(
        "voter updated to another software",
        lambda w: update_voter(
            w,
            kraft_version_feature=UpdateRaftVoterKRaftVersionFeature(min_supported_version=5, max_supported_version=6),
        ),
        [ErrorCode.INVALID_REQUEST],
    ),
    Case("quorum of another topic", lambda w: describe_quorum(w, topic="t"), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    Case("quorum of another partition", lambda w: describe_quorum(w, index=1), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    Case("quorum at a follower", describe_quorum, [ErrorCode.NOT_LEADER_OR_FOLLOWER], is_to_other=True),
    # --- brokers
    Case("broker of another cluster", another(cluster_id=OTHER), [ErrorCode.INCONSISTENT_CLUSTER_ID]),
    Case(
        "broker with the id of a living one",
        lambda w: registration(w, incarnation_id=UUID(int=2)),
        [ErrorCode.DUPLICATE_BROKER_REGISTRATION],
    ),
    Case(
        "broker with the directory of another",
        another(log_dirs=[DIRECTORY]),
        [ErrorCode.INVALID_REGISTRATION],
    ),
    Case("broker without a directory", another(log_dirs=[]), [ErrorCode.INVALID_REGISTRATION]),
    Case("broker with a directory twice", another(log_dirs=[UUID(int=5008)] * 2), [ErrorCode.INVALID_REGISTRATION]),
    Case("broker with a reserved directory", another(log_dirs=[UUID(int=2)]), [ErrorCode.INVALID_REGISTRATION]),
    Case("broker without a listener", another(listeners=[], broker_id=9, log_dirs=[UUID(int=5009)]), []),
    Case(
        "broker without an incarnation",
        another(incarnation_id=UUID(int=0), broker_id=10, log_dirs=[UUID(int=5010)]),
        [],
    ),
    Case("broker with a negative id", another(broker_id=-1, log_dirs=[UUID(int=5011)]), []),
    Case(
        "broker without features",
        another(broker_id=12, features=[], log_dirs=[UUID(int=5012)]),
        [ErrorCode.INVALID_REGISTRATION],
    ),
    Case(
        "broker of an older metadata.version",
        another(levels={"metadata.version": (7, 29)}),
        [ErrorCode.UNSUPPORTED_VERSION],
    ),
    Case(
        "broker of a newer metadata.version",
        another(levels={"metadata.version": (31, 32)}),
        [ErrorCode.UNSUPPORTED_VERSION],
    ),
    Case("broker of a newer kraft.version", another(levels={"kraft.version": (2, 3)}), [ErrorCode.UNSUPPORTED_VERSION]),
    Case(
        "broker without transactions", another(levels={"transaction.version": (0, 1)}), [ErrorCode.UNSUPPORTED_VERSION]
    ),
    Case("broker at a follower", another(), [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "heartbeat with an older epoch",
        lambda w: heartbeat(w, broker_epoch=w.broker_epoch - 1),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case(
        "heartbeat with a newer epoch",
        lambda w: heartbeat(w, broker_epoch=w.broker_epoch + 1),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case("heartbeat of who is not registered", lambda w: heartbeat(w, broker_id=55), [ErrorCode.STALE_BROKER_EPOCH]),
    Case("heartbeat at a follower", heartbeat, [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "in-sync set with another epoch",
        lambda w: alter_partition(w, broker_epoch=w.broker_epoch - 1),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case(
        "in-sync set of who is not registered",
        lambda w: alter_partition(w, broker_id=55),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case("in-sync set of an unknown topic", alter_partition, [ErrorCode.UNKNOWN_TOPIC_ID]),
    Case("in-sync set at a follower", alter_partition, [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "directories with another epoch",
        lambda w: assign(w, broker_epoch=w.broker_epoch - 1),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case("directories of who is not registered", lambda w: assign(w, broker_id=55), [ErrorCode.STALE_BROKER_EPOCH]),
    Case("directories of an unknown topic", assign, [ErrorCode.UNKNOWN_TOPIC_ID]),
    Case("directory of no broker", lambda w: assign(w, directory=UUID(int=4711)), [ErrorCode.UNKNOWN_TOPIC_ID]),
    Case("directories at a follower", assign, [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "producer ids with another epoch",
        lambda w: producer_ids(w, broker_epoch=w.broker_epoch + 1),
        [ErrorCode.STALE_BROKER_EPOCH],
    ),
    Case(
        "producer ids of who is not registered", lambda w: producer_ids(w, broker_id=55), [ErrorCode.STALE_BROKER_EPOCH]
    ),
    Case("producer ids at a follower", producer_ids, [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "unregistration of who is not registered",
        lambda w: UnregisterBrokerRequest(broker_id=55),
        [ErrorCode.BROKER_ID_NOT_REGISTERED],
    ),
    Case(
        "unregistration at a follower",
        lambda w: UnregisterBrokerRequest(broker_id=55),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case("controller at a follower", controller_registration, [ErrorCode.NOT_CONTROLLER], is_to_other=True),
    Case(
        "controller without features",
        lambda w: controller_registration(w, controller_id=155, features=[]),
        [],
    ),
    Case("topic at a follower", lambda w: create_request("t"), [ErrorCode.NOT_CONTROLLER], 7, is_to_other=True),
    Case(
        "partitions at a follower",
        lambda w: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3)], timeout_ms=1000),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case(
        "configuration at a follower",
        lambda w: AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="t")]),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case(
        "single keys at a follower",
        lambda w: IncrementalAlterConfigsRequest(
            resources=[IncrementalAlterConfigsAlterConfigsResource(resource_type=2, resource_name="t")]
        ),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case(
        "features at a follower",
        lambda w: UpdateFeaturesRequest(timeout_ms=1000),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case(
        "deletion at a follower",
        lambda w: DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    # --- envelopes
    Case("envelope", envelope(), []),
    Case(
        "envelope at a follower",
        envelope(request_data=inside(create_request("t"), 7)),
        [ErrorCode.NOT_CONTROLLER],
        is_to_other=True,
    ),
    Case("envelope with an address of 3 bytes", envelope(client_host_address=b"abc"), [ErrorCode.INVALID_REQUEST]),
    Case("envelope without an address", envelope(client_host_address=b""), [ErrorCode.INVALID_REQUEST]),
    Case("envelope with an address of 16 bytes", envelope(client_host_address=bytes(16)), []),
    Case(
        "envelope without a principal", envelope(request_principal=None), [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE]
    ),
    Case(
        "envelope with an empty principal",
        envelope(request_principal=b""),
        [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE],
    ),
    Case(
        "envelope with a principal of tomorrow",
        envelope(request_principal=struct.pack(">h", 99)),
        [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE],
    ),
    Case(
        "envelope with half a principal",
        envelope(request_principal=encode_principal("User:ANONYMOUS")[:7]),
        [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE],
    ),
    Case("envelope with nothing in it", envelope(request_data=b""), [ErrorCode.UNSUPPORTED_VERSION]),
    Case("envelope with half a header in it", envelope(request_data=VALIDATED[:6]), [ErrorCode.UNSUPPORTED_VERSION]),
    Case("envelope with half a request in it", envelope(request_data=VALIDATED[:-3]), [ErrorCode.UNSUPPORTED_VERSION]),
    Case("envelope with more than a request in it", envelope(request_data=VALIDATED + b"more"), []),
    Case(
        "envelope with what goes to brokers",
        envelope(request_data=inside(MetadataRequest(topics=None), 12)),
        [ErrorCode.INVALID_REQUEST],
    ),
    Case(
        "envelope with what brokers ask",
        envelope(request_data=inside(UpdateRaftVoterRequest(cluster_id=None), 0)),
        [ErrorCode.INVALID_REQUEST],
    ),
    Case("envelope in an envelope", envelope(request_data=whole_envelope()), [ErrorCode.INVALID_REQUEST]),
    Case(
        "envelope with an unknown API",
        envelope(request_data=struct.pack(">hhih", 9999, 0, 1, -1)),
        [ErrorCode.UNSUPPORTED_VERSION],
    ),
    Case(
        "envelope with an unknown version",
        envelope(request_data=VALIDATED[:2] + struct.pack(">h", 99) + VALIDATED[4:]),
        [ErrorCode.UNSUPPORTED_VERSION],
    ),
)
