"""What the model of classic groups knows of clients, their requests and generations (group_model.py)."""

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
    """A consumer's process; its successor has the same name and instance id, and no member id."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.offers: tuple[str, ...] = OFFERS[1]
        self.topic = "t"
        self.ids: list[str] = []
        """All member ids that it had, the newest last."""
        self.listed: list[str] = []
        """Members that it has as the leader of its generation."""
        self.call: Call | None = None
        """Its last request, while that waits."""
        self.begin_anew()

    def begin_anew(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.must_join = True
        self.is_synced = False
        self.call = None


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A request that was sent."""

    client: Client
    life: int
    number: int
    member_id: str
    generation: int = -1
    offered: dict[str, bytes] = field(default_factory=dict)
    newest: int | None = None
    """The newest generation that was known when the request was sent."""
    is_replaced: bool = False
    """The member has sent another request since, which is the one that is answered."""
    was_barred: bool = False
    """Its member id had lost its place, or had left, when the request was sent."""

    @property
    def who(self) -> str:
        return self.client.instance or self.member_id


@dataclass(slots=True)
class Generation:
    """What is known of one generation in one life of the coordinator."""

    protocol: str | None = None
    joined: dict[str, Call] = field(default_factory=dict)
    listed: dict[str, tuple[str | None, bytes]] | None = None
    assigned_by: int | None = None

    def check_listed(self) -> None:
        """The leader knows each member that has got this generation, by the metadata of its JoinGroup."""
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
    """Keeps the first error that the coordinator logs: a broken invariant."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: logging.LogRecord | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record


def join_request(client: Client, member_id: str, offered: dict[str, bytes]) -> JoinGroupRequest:
    """Return a client's JoinGroup with these protocols."""
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=client.instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
    )
