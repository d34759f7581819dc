"""Leaders and epochs that requests and responses name, and the transitions that follow from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.roles import Follower, Leader
from kwire.cluster.quorum.state import NO_NODE
from kwire.cluster.quorum.transitions import become_follower, become_unattached
from kwire.cluster.quorum.voters import Endpoints, Listener
from kwire.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class NodeEndpoint(Protocol):
    """Address of a node, as the responses of all these APIs contain it."""

    node_id: int
    host: str
    port: int


def leader_endpoints(core: Core, leader_id: int, named: Sequence[NodeEndpoint]) -> Endpoints:
    """Return the leader's endpoints from the response, or else from the voter set."""
    for node in named:
        if node.node_id == leader_id and node.host:
            return (Listener(core.config.listener, node.host, node.port),)
    return core.voters.endpoints(leader_id)


class Outcome(Enum):
    """Next action for a response, after its leader and epoch were processed."""

    HANDLED = "handled"
    FAILED = "failed"
    CONTINUE = "continue"


def consider_response(
    core: Core, error: ErrorCode, epoch: int, leader_id: int, named: Sequence[NodeEndpoint]
) -> Outcome:
    """Learn epoch and leader from a response; the rest of it counts only if it has the current epoch."""
    if epoch < core.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH or not core.is_plausible_epoch(epoch):
        return Outcome.FAILED
    endpoints = leader_endpoints(core, leader_id, named) if leader_id >= 0 else ()
    if epoch > core.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        before = core.role
        update_leader(core, epoch, leader_id, endpoints)
        # A node that sends nothing new is not asked again immediately: that would only keep both busy.
        return Outcome.HANDLED if core.role is not before else Outcome.FAILED
    if leader_id >= 0 and not core.leader_endpoints:
        if not update_leader(core, epoch, leader_id, endpoints):
            return Outcome.FAILED
        return Outcome.CONTINUE if not error else Outcome.HANDLED
    if error == ErrorCode.INVALID_VOTER_KEY:
        logger.info("node %d: the id of the voter that was asked belongs to another replica", core.config.node_id)
        return Outcome.FAILED
    return Outcome.FAILED if error == ErrorCode.BROKER_NOT_AVAILABLE else Outcome.CONTINUE


def update_leader(core: Core, epoch: int, leader_id: int, endpoints: Endpoints) -> bool:
    """Follow a named leader, or at least its epoch; return False if the leader contradicts this replica's state."""
    if leader_id == core.config.node_id:
        leader_id = NO_NODE  # this node, now or in an epoch that it led with a directory that is lost
    if not is_consistent(core, epoch, leader_id):
        logger.error(
            "node %d: received leader %d in epoch %d, but it has leader %d in epoch %d",
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
    """Return False if another node names a second leader for this replica's epoch."""
    if epoch != core.epoch or leader_id < 0:
        return True
    return core.leader_id in (NO_NODE, leader_id) and not isinstance(core.role, Leader)


def following(core: Core) -> Follower | None:
    return core.role if isinstance(core.role, Follower) else None
