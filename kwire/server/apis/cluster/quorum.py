"""APIs of the metadata quorum, which controllers serve to each other, to brokers and to administrators.

Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot of __cluster_metadata, AddRaftVoter, RemoveRaftVoter,
UpdateRaftVoter (KIP-595, KIP-630, KIP-853). kwire.cluster.quorum answers all of them.
"""

from __future__ import annotations

from typing import Any

from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kwire.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kwire.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kwire.protocol.messages.vote import VoteRequest, VoteResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext, NodeServices


def _api(request: type, response: type) -> Api[NodeServices]:
    def handle_quorum(message: Any, context: NodeContext) -> Answer[Any]:
        if not context.allows_cluster():
            return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        node = context.services.metadata_log.node
        return node.request(message, version=context.version, listener=context.listener_name)

    return Api(request=request, response=response, handle=handle_quorum)


def reject_new_voter(request: AddRaftVoterRequest, error: KafkaError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message or error.code.meaning)


def reject_removal(request: RemoveRaftVoterRequest, error: KafkaError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message or error.code.meaning)


ADD_RAFT_VOTER = _api(AddRaftVoterRequest, AddRaftVoterResponse)
REMOVE_RAFT_VOTER = _api(RemoveRaftVoterRequest, RemoveRaftVoterResponse)
APIS = (
    _api(FetchRequest, FetchResponse),
    _api(VoteRequest, VoteResponse),
    _api(BeginQuorumEpochRequest, BeginQuorumEpochResponse),
    _api(EndQuorumEpochRequest, EndQuorumEpochResponse),
    _api(FetchSnapshotRequest, FetchSnapshotResponse),
    _api(UpdateRaftVoterRequest, UpdateRaftVoterResponse),
)
