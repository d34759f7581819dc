"""Client quotas, set and removed by raw requests, independent of the clients under test."""

from collections.abc import Iterator
from contextlib import contextmanager

from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest

Entity = tuple[tuple[str, str | None], ...]


def alter(bootstrap: str, entity: Entity, key: str, value: float | None, *, validate_only: bool = False):
    """Set a quota, or remove it with None; return the error code and message."""
    with Peer(bootstrap) as peer:
        return alter_by(peer, entity, key, value, validate_only=validate_only)


def alter_by(peer: Peer, entity: Entity, key: str, value: float | None, *, validate_only: bool = False):
    """Set or remove a quota over an existing connection."""
    entry = AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[AlterClientQuotasOperation(key=key, value=value or 0.0, remove=value is None)],
    )
    (answer,) = peer.ask(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only), 1).entries
    return answer.error_code, answer.error_message


def described(bootstrap: str) -> dict[Entity, dict[str, float]]:
    """Return all quotas of the broker."""
    with Peer(bootstrap) as peer:
        answer = peer.ask(DescribeClientQuotasRequest(components=[]), 1)
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


@contextmanager
def quota(bootstrap: str, entity: Entity, key: str, value: float) -> Iterator[None]:
    """Set a quota during the block. Brokers apply it shortly after their response."""
    assert alter(bootstrap, entity, key, value) == (0, None)
    eventually(lambda: described(bootstrap).get(entity, {}).get(key) == value, "the quota to be known")
    try:
        yield
    finally:
        assert alter(bootstrap, entity, key, None) == (0, None)
        eventually(lambda: key not in described(bootstrap).get(entity, {}), "the quota to be gone")


def ask_throttle(peer: Peer) -> int:
    """Return the throttle time in the response to a request without side effects."""
    return peer.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3).throttle_time_ms
