"""The numbers in requests about access control entries: what none of them may be."""

from __future__ import annotations

from kwire.protocol.error_codes import ProtocolError

UNKNOWN = 0


def check_elements(resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Raises ProtocolError where one is UNKNOWN: as Kafka does, the broker closes the connection of who sends that."""
    if UNKNOWN in (resource_type, pattern_type, operation, permission):
        raise ProtocolError("an access control entry or filter has an element of 0, UNKNOWN")
