"""Quorum settings: the quorum of controllers, and the roles of this node.

The rules and most messages are Apache Kafka's. Inconsistent settings raise RuleBrokenError with one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kwire.server.settings.listeners import Listeners
from kwire.server.settings.setting_rules import RuleBrokenError

BROKER = "broker"
CONTROLLER = "controller"
_VOTERS = "controller.quorum.voters"
_SERVERS = "controller.quorum.bootstrap.servers"
_NAMES = "controller.listener.names"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Voters or bootstrap controllers, and the roles of this node."""

    roles: frozenset[str]
    voters: tuple[tuple[int, str, int], ...]
    """Tuples (id, host, port) of a static quorum's voters, by id; empty if the metadata log stores the voters."""
    bootstrap_servers: tuple[tuple[str, int], ...]
    """Pairs (host, port) of controllers that can name the leader."""

    @property
    def is_default(self) -> bool:
        """True if no quorum is configured: this node is the whole quorum."""
        return not self.voters and not self.bootstrap_servers


def read_quorum(typed: Mapping[str, Any]) -> QuorumSettings:
    """Return the settings without checks against each other. For a repeated id, the last entry counts."""
    voters = dict(_voter(item) for item in typed[_VOTERS])
    return QuorumSettings(
        roles=frozenset(typed["process.roles"]),
        voters=tuple((node_id, *voters[node_id]) for node_id in sorted(voters)),
        bootstrap_servers=tuple(_address(_SERVERS, item) for item in typed[_SERVERS]),
    )


def _voter(item: str) -> tuple[int, tuple[str, int]]:
    node_id, _, address = item.partition("@")
    return int(node_id), _address(_VOTERS, address)


def _address(setting: str, item: str) -> tuple[str, int]:
    host, _, port = item.rpartition(":")
    if int(port[:6]) > 65535:
        raise RuleBrokenError(f"{setting}: port out of range:{port}")
    return host.strip("[]"), int(port)


def check_quorum(quorum: QuorumSettings, listeners: Listeners, typed: Mapping[str, Any]) -> None:
    """Check roles, quorum and listeners against each other."""
    if BROKER in quorum.roles and CONTROLLER in quorum.roles:
        # No other node needs the controller's address if this node is the whole quorum.
        if not quorum.is_default:
            _check_controller(quorum, listeners, typed["node.id"])
    else:
        _check_has_quorum(quorum)
        if BROKER in quorum.roles:
            _check_broker_alone(quorum, listeners, typed)
        else:
            _check_controller_alone(listeners)
            _check_controller(quorum, listeners, typed["node.id"])
    if BROKER in quorum.roles and not listeners.clients:
        raise RuleBrokenError("listeners: names no listener for clients; add one such as PLAINTEXT://127.0.0.1:9092")
    if BROKER in quorum.roles and not listeners.advertised:
        raise RuleBrokenError(
            "advertised.listeners: There must be at least one broker advertised listener. "
            "Perhaps all listeners appear in controller.listener.names?"
        )


def _agree(holds: bool, message: str) -> None:
    if not holds:
        raise RuleBrokenError(message)


def _ids(quorum: QuorumSettings) -> str:
    return ",".join(str(node_id) for node_id, _, _ in quorum.voters)


def _is_voter(quorum: QuorumSettings, node_id: int) -> bool:
    return any(voter == node_id for voter, _, _ in quorum.voters)


def _check_has_quorum(quorum: QuorumSettings) -> None:
    _agree(
        not quorum.is_default,
        f"If using process.roles, either {_SERVERS} must contain the set of bootstrap controllers or {_VOTERS} must "
        "contain a parseable set of controllers.",
    )


def _check_controller(quorum: QuorumSettings, listeners: Listeners, node_id: int) -> None:
    _agree(
        not quorum.voters or _is_voter(quorum, node_id),
        f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of voters "
        f"{_VOTERS}={_ids(quorum)}",
    )
    _agree(
        bool(listeners.advertised_controllers),
        f"{_NAMES} must contain at least one value appearing in the 'listeners' configuration when running the KRaft "
        "controller role",
    )
    _agree(
        set(listeners.controller_names) <= {listener.name for listener in listeners.all},
        f"{_NAMES} must only contain values appearing in the 'listeners' configuration when running the KRaft "
        "controller role",
    )


def _check_controller_alone(listeners: Listeners) -> None:
    _agree(
        not listeners.clients,
        f"The listeners config must only contain KRaft controller listeners from {_NAMES} when "
        "process.roles=controller",
    )


def _check_broker_alone(quorum: QuorumSettings, listeners: Listeners, typed: Mapping[str, Any]) -> None:
    node_id = typed["node.id"]
    _agree(
        not _is_voter(quorum, node_id),
        f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set of "
        f"voters {_VOTERS}={_ids(quorum)}",
    )
    _agree(
        not listeners.controllers,
        f"{_NAMES} must not contain a value appearing in the 'listeners' configuration when running KRaft with just "
        "the broker role",
    )
    for name in listeners.controller_names:
        _agree(
            name in listeners.protocols,
            f"Controller listener with name {name} defined in {_NAMES} not found in listener.security.protocol.map; "
            "add it",
        )
    _agree(
        not typed["controller.quorum.auto.join.enable"],
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
    )
