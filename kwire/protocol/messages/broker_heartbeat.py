"""BrokerHeartbeat: keep a broker's session at the controller; request unfencing or shutdown (KIP-631).

1  directories that failed (KIP-858)
2  directories that accept no new partitions (KIP-1066)
"""

from kwire.protocol.primitives import BrokerId, boolean, int16, int32, int64, uuid
from kwire.protocol.schema import field, message


@message(key=63, kind="request", versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    current_metadata_offset: int64 = field("0+")
    """Offset up to which the broker has applied the metadata log."""
    want_fence: boolean = field("0+")
    want_shut_down: boolean = field("0+")
    offline_log_dirs: list[uuid] = field("1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[uuid] | None = field("2+", nullable="2+", tag=1, tagged="2+", default=None)
    """None while unknown to the broker."""


@message(key=63, kind="response", versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    is_caught_up: boolean = field("0+")
    is_fenced: boolean = field("0+", default=True)
    should_shut_down: boolean = field("0+")
