"""Member of a classic group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from kwire.protocol.messages.describe_groups import DescribedGroupMember
from kwire.protocol.messages.group_records import MemberMetadata
from kwire.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) pairs in the member's order of preference."""

JoinAnswer = asyncio.Future[JoinGroupResponse]
SyncAnswer = asyncio.Future[SyncGroupResponse]


def protocols_of(requested: Collection[JoinGroupRequestProtocol]) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in requested)


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """Member of a classic group, which counts its waiting answers."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """True until the member's first JoinGroup is answered; it has no id yet, and its session may expire meanwhile."""
    awaiting_join: JoinAnswer | None = None
    """Pending JoinGroup answer; it counts until the session or the rebalance ends, even if its client disconnects."""
    awaiting_sync: SyncAnswer | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def protocol_names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """True if the expiration of the session may be ignored, because the member waits for an answer."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata_for(self, protocol: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the member's preferred protocol among the candidates, one of which it must support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def described(self, protocol: str | None) -> DescribedGroupMember:
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata_for(protocol),
            member_assignment=self.assignment,
        )

    def recorded(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata_for(protocol),
            assignment=assignment,
        )


def member_from_record(recorded: MemberMetadata, protocol_type: str, protocol: str) -> Member:
    """Return a member with only the selected protocol, whose metadata the record contains."""
    timeout = recorded.rebalance_timeout
    return Member(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        rebalance_timeout_ms=recorded.session_timeout if timeout == -1 else timeout,
        session_timeout_ms=recorded.session_timeout,
        protocol_type=protocol_type,
        protocols=((protocol, bytes(recorded.subscription)),),
        assignment=bytes(recorded.assignment),
    )
