"""Common code of the ACL requests: validation of entries and filters, and the SECURITY_DISABLED results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from kwire.chunks import Pieces, mapped
from kwire.protocol.error_codes import ErrorCode, ProtocolError

UNKNOWN = 0


def check_elements(resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Raise ProtocolError if an element is UNKNOWN (0). As in Kafka, the connection of the client is then closed."""
    if UNKNOWN in (resource_type, pattern_type, operation, permission):
        raise ProtocolError("an access control entry or filter has an element of 0, UNKNOWN")


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ResultType(Protocol[R_co]):
    """Constructor of the result for one entry or filter."""

    def __call__(self, *, error_code: int, error_message: str) -> R_co: ...


def reject_all(result: ResultType[R], elements: Iterable[tuple[int, int, int, int]]) -> Pieces[list[R]]:
    """Return a SECURITY_DISABLED result for each (resource, pattern, operation,
    permission): no authorizer keeps entries.

    Raises ProtocolError if any of them has an element of 0.
    """

    def reject(each: tuple[int, int, int, int]) -> R:
        check_elements(*each)
        return result(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")

    return mapped(elements, reject)
