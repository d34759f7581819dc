"""DescribeCluster: id, controller and brokers (KIP-700)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.server.authorization import ResourceType
from kwire.server.authorized_operations import authorized_operations
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

BROKERS = 1


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            if request.endpoint_type not in (1, 2)
            else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            f"{'CONTROLLER' if request.endpoint_type == 2 else request.endpoint_type}",
        )
    services = context.services
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id, controller_id=services.node_id, brokers=_brokers(request, context)
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = (
            authorized_operations(context, ResourceType.CLUSTER) if context.allows_cluster() else 0
        )
    return response


def _brokers(request: DescribeClusterRequest, context: RequestContext) -> list[DescribeClusterBroker]:
    brokers = []
    for broker in context.services.image.brokers.values():
        if broker.fenced and not request.include_fenced_brokers:
            continue
        for end in broker.endpoints:
            if end.name == context.listener_name:
                shown = DescribeClusterBroker(
                    broker_id=broker.broker_id, host=end.host, port=end.port, rack=broker.rack
                )
                if context.version >= 2:
                    shown.is_fenced = broker.fenced
                brokers.append(shown)
    return brokers


API = Api(request=DescribeClusterRequest, response=DescribeClusterResponse, handle=handle)
