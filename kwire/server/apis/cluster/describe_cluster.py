"""DescribeCluster: return the cluster id, the controller and the brokers (KIP-700)."""

from __future__ import annotations

from kwire.cluster.security.acls import Operation
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import cluster_operations
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import NodeContext

BROKERS, CONTROLLERS = 1, 2
NO_CONTROLLER = -1
ENDPOINT_TYPE_SINCE = 1
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle_describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Describe the cluster as a broker, which names itself as the controller: any broker
    accepts the controller's requests.
    """
    if request.endpoint_type != BROKERS:
        return _mismatch(request, BROKERS, context.version)
    response = DescribeClusterResponse(
        cluster_id=context.services.cluster_id,
        controller_id=context.services.node_id,
        brokers=_brokers(request, context),
    )
    return _with_operations(response, request, context)


def handle_at_controller(request: DescribeClusterRequest, context: NodeContext) -> DescribeClusterResponse:
    """Describe the cluster as a controller: the leader, and the addresses of the controllers (KIP-919).

    As in Kafka, only a client that may alter the cluster gets them.
    """
    if request.endpoint_type != CONTROLLERS:
        return _mismatch(request, CONTROLLERS, context.version)
    if not context.allows_cluster_to(Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClusterResponse(error_code=code, error_message=code.meaning, endpoint_type=CONTROLLERS)
    controllers = [
        DescribeClusterBroker(broker_id=controller.controller_id, host=end.host, port=end.port, rack=None)
        for controller in context.services.image.controllers.values()
        for end in controller.endpoints
        if end.name == context.listener_name
    ]
    leader_id = context.services.metadata_log.node.quorum.leader_id
    if leader_id != NO_CONTROLLER and all(each.broker_id != leader_id for each in controllers):
        # The leader has not registered its address yet. If the Java Admin client gets other controllers, it waits until
        # it refreshes its metadata after 5 minutes; if it gets none, it asks again after a moment.
        leader_id, controllers = NO_CONTROLLER, []
    response = DescribeClusterResponse(
        cluster_id=context.services.cluster_id,
        endpoint_type=CONTROLLERS,
        controller_id=leader_id,
        brokers=controllers,
    )
    return _with_operations(response, request, context)


def _mismatch(request: DescribeClusterRequest, here: int, version: int) -> DescribeClusterResponse:
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    if request.endpoint_type not in NAMES:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    elif version < ENDPOINT_TYPE_SINCE:  # clients of these versions do not know the code
        code = ErrorCode.INVALID_REQUEST
    return DescribeClusterResponse(
        error_code=code,
        error_message=f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted an endpoint of type "
        f"{NAMES.get(request.endpoint_type, request.endpoint_type)}",
    )


def _with_operations(
    response: DescribeClusterResponse, request: DescribeClusterRequest, context: NodeContext
) -> DescribeClusterResponse:
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _brokers(request: DescribeClusterRequest, context: NodeContext) -> list[DescribeClusterBroker]:
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


API = Api(request=DescribeClusterRequest, response=DescribeClusterResponse, handle=handle_describe_cluster)
AT_CONTROLLER = API.served_by(handle_at_controller)
