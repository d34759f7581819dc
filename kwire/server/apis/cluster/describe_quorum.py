"""DescribeQuorum: return the leader, voters and observers of the metadata log with their
lag (KIP-595, KIP-836, KIP-853).
"""

from __future__ import annotations

from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_describe_quorum(request: DescribeQuorumRequest, context: NodeContext) -> Answer[DescribeQuorumResponse]:
    if not context.allows_cluster():
        return reject(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    node = context.services.metadata_log.node
    return node.request(request, version=context.version, listener=context.listener_name)


def reject(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(request=DescribeQuorumRequest, response=DescribeQuorumResponse, handle=handle_describe_quorum)
