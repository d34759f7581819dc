"""Clients, requests and generations in the model of classic groups (group_model.py)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

GROUP: Final = "g"
REBALANCE_MS: Final = 5000
SESSION_MS: Final = 6000
OFFERS: Final = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("sticky", "odd"))


class Client:
    """Process of a consumer; its successor has the same name and instance id, and no member id."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.offers: tuple[str, ...] = OFFERS[1]
        self.topic = "t"
        self.ids: list[str] = []
        """All its member ids, newest last."""
        self.listed: list[str] = []
        """Members in its JoinGroup response as the leader of its generation."""
        self.call: Call | None = None
        """Last request, while it waits for a response."""
        self.begin_anew()

    def begin_anew(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.must_join = True
        self.is_synced = False
        self.call = None


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """Request that was sent."""

    client: Client
    life: int
    number: int
    member_id: str
    generation: int = -1
    offered: dict[str, bytes] = field(default_factory=dict)
    newest: int | None = None
    """Newest known generation when the request was sent."""
    is_replaced: bool = False
    """True if the member has sent another request since, which gets the response instead."""
    was_barred: bool = False
    """True if the member id had been replaced, or had left, when the request was sent."""

    @property
    def who(self) -> str:
        return self.client.instance or self.member_id


@dataclass(slots=True)
class Generation:
    """Generation of a group since one load of the coordinator."""

    protocol: str | None = None
    joined: dict[str, Call] = field(default_factory=dict)
    listed: dict[str, tuple[str | None, bytes]] | None = None
    assigned_by: int | None = None

    def check_listed(self) -> None:
        """Check that the leader's list has each member of this generation, with the metadata of its JoinGroup."""
        if self.listed is None:
            return
        instances = {instance for instance, _ in self.listed.values() if instance is not None}
        for member_id, call in self.joined.items():
            listed = self.listed.get(member_id)
            if listed is None:
                assert call.client.instance in instances, f"members: {member_id} is not in the leader's list"
                continue
            assert self.protocol is not None
            assert listed[1] == call.offered[self.protocol], f"members: {member_id} has other metadata"


class Errors(logging.Handler):
    """Log handler that keeps the coordinator's first error, which is a broken invariant."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: logging.LogRecord | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record


def join_request(client: Client, member_id: str, offered: dict[str, bytes]) -> JoinGroupRequest:
    """Return a JoinGroup request of a client with these protocols."""
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=client.instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
    )
