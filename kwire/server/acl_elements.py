"""The numbers in requests about access control entries: what none of them may be."""

from __future__ import annotations

from kwire.protocol.error_codes import ProtocolError

UNKNOWN = 0
RESOURCE_TYPE_MAX, PATTERN_TYPE_MAX, OPERATION_MAX, PERMISSION_MAX = 7, 4, 15, 3


def check_filter(resource_type: int, pattern_type: int | None, operation: int, permission: int) -> None:
    """Raises ProtocolError for a number that Kafka does not know: it closes the connection of who sends one."""
    for value, highest in (
        (resource_type, RESOURCE_TYPE_MAX),
        (pattern_type, PATTERN_TYPE_MAX),
        (operation, OPERATION_MAX),
        (permission, PERMISSION_MAX),
    ):
        if value is not None and not UNKNOWN < value <= highest:
            raise ProtocolError(f"an access control entry or filter has the unknown element {value}")
