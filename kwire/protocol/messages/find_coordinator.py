"""FindCoordinator: which broker coordinates a group, a transactional id or a share group's partition.

1  key type, throttle time, error message (KIP-98)
3  flexible
4  many keys at once (KIP-699)
5  TRANSACTION_ABORTABLE may be returned (KIP-890)
6  share groups: a key is groupId:topicId:partition (KIP-932)
"""

from kwire.protocol.primitives import BrokerId, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=10, kind="request", versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: string = field("0-3")
    key_type: int8 = field("1+")
    coordinator_keys: list[string] = field("4+")


@struct
class Coordinator:
    key: string = field("4+")
    node_id: BrokerId = field("4+")
    host: string = field("4+")
    port: int32 = field("4+")
    error_code: int16 = field("4+")
    error_message: string | None = field("4+", nullable="4+", ignorable=True)


@message(key=10, kind="response", versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0-3")
    error_message: string | None = field("1-3", nullable="1-3", ignorable=True)
    node_id: BrokerId = field("0-3")
    host: string = field("0-3")
    port: int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
