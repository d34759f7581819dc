"""What requests and responses say about who leads, and what a replica makes of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.roles import Follower, Leader
from kwire.cluster.quorum.state import NOBODY
from kwire.cluster.quorum.transitions import become_follower, become_unattached
from kwire.cluster.quorum.voters import Endpoints, Listener
from kwire.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class NodeEndpoint(Protocol):
    """Where a node listens, as the responses of all these APIs have it."""

    node_id: int
    host: str
    port: int


def leader_endpoints(core: Core, leader_id: int, named: Sequence[NodeEndpoint]) -> Endpoints:
    """Where the leader is: as the response says, or as the voter set has it."""
    for node in named:
        if node.node_id == leader_id and node.host:
            return (Listener(core.config.listener, node.host, node.port),)
    return core.voters.endpoints(leader_id)


class Outcome(Enum):
    """What is left to do about a response after what it says of the leader was considered."""

    HANDLED = "handled"
    FAILED = "failed"
    GO_ON = "go on"


def consider_response(
    core: Core, error: ErrorCode, epoch: int, leader_id: int, named: Sequence[NodeEndpoint]
) -> Outcome:
    """Learn epoch and leader from a response; the rest of it counts only if it is of this epoch."""
    if epoch < core.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH or not core.is_believable(epoch):
        return Outcome.FAILED
    endpoints = leader_endpoints(core, leader_id, named) if leader_id >= 0 else ()
    if epoch > core.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        before = core.role
        learn_leader(core, epoch, leader_id, endpoints)
        # Who says nothing new is left alone for a while: asking again at once would only keep both busy.
        return Outcome.HANDLED if core.role is not before else Outcome.FAILED
    if leader_id >= 0 and not core.leader_endpoints:
        if not learn_leader(core, epoch, leader_id, endpoints):
            return Outcome.FAILED
        return Outcome.GO_ON if not error else Outcome.HANDLED
    if error == ErrorCode.INVALID_VOTER_KEY:
        logger.info("node %d: another replica has the id of a voter that was asked", core.config.node_id)
        return Outcome.FAILED
    return Outcome.FAILED if error == ErrorCode.BROKER_NOT_AVAILABLE else Outcome.GO_ON


def learn_leader(core: Core, epoch: int, leader_id: int, endpoints: Endpoints) -> bool:
    """Follow a leader that was named, or at least its epoch; False if what was named cannot be true."""
    if leader_id == core.config.node_id:
        leader_id = NOBODY  # itself now, or in an epoch that it led with a directory that is gone
    if not is_consistent(core, epoch, leader_id):
        logger.error(
            "node %d: told of leader %d in epoch %d, but it knows leader %d in epoch %d",
            *(core.config.node_id, leader_id, epoch, core.leader_id, core.epoch),
        )
        return False
    if epoch > core.epoch:
        if leader_id >= 0 and endpoints:
            become_follower(core, epoch, leader_id, endpoints)
        else:
            become_unattached(core, epoch, leader_id)
    elif epoch == core.epoch and leader_id >= 0 and len(endpoints) > len(core.leader_endpoints):
        become_follower(core, epoch, leader_id, endpoints)
    return True


def is_consistent(core: Core, epoch: int, leader_id: int) -> bool:
    """Whether an epoch has one leader, this replica's opinion included; `leader_id` is another's."""
    if epoch != core.epoch or leader_id < 0:
        return True
    return core.leader_id in (NOBODY, leader_id) and not isinstance(core.role, Leader)


def following(core: Core) -> Follower | None:
    return core.role if isinstance(core.role, Follower) else None
