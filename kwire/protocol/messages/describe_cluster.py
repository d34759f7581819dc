"""DescribeCluster: cluster id, controller and brokers (KIP-700). Flexible from the start.

1  brokers or controllers (KIP-919)
2  fenced brokers as well (KIP-1073)
"""

from kwire.protocol.primitives import BrokerId, boolean, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=60, kind="request", versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: boolean = field("0+")
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: boolean = field("2+")


@struct
class DescribeClusterBroker:
    broker_id: BrokerId = field("0+")
    host: string = field("0+")
    port: int32 = field("0+")
    rack: string | None = field("0+", nullable="0+", default=None)
    is_fenced: boolean = field("2+")


@message(key=60, kind="response", versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string = field("0+")
    controller_id: BrokerId = field("0+", default=-1)
    brokers: list[DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: int32 = field("0+", default=-0x80000000)
