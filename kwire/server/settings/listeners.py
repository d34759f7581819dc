"""Listener settings: listeners for clients and brokers, listeners for controllers, and their advertised addresses.

Inconsistent settings raise RuleBrokenError with one line that names the setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.server.settings.security_protocols import PROTOCOL_MAP, SecurityProtocol, protocols_by_name
from kwire.server.settings.setting_rules import RuleBrokenError

_ALL_INTERFACES = frozenset({"0.0.0.0", "::"})  # noqa: S104 rejected or replaced, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAddress:
    """Address NAME://host:port of a listener; an empty host stands for all interfaces."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Bound and advertised listeners of a node. Names are in capitals."""

    all: tuple[ListenerAddress, ...]
    clients: tuple[ListenerAddress, ...]
    """Listeners for clients and other brokers."""
    advertised: tuple[ListenerAddress, ...]
    """Advertised listeners for clients and other brokers."""
    controllers: tuple[ListenerAddress, ...]
    advertised_controllers: tuple[ListenerAddress, ...]
    """Advertised listeners of the controller, in the order of controller.listener.names; an empty host
    stands for this machine's name.
    """
    controller_names: tuple[str, ...]
    protocols: Mapping[str, SecurityProtocol]
    """Security protocols by listener name, also of listeners of other nodes."""


def read_listeners(given: Mapping[str, str], typed: Mapping[str, Any]) -> Listeners:
    """Return the listeners of the settings, after all checks that need no role."""
    names = tuple(name.upper() for name in typed["controller.listener.names"])
    listeners = _addresses("listeners", typed["listeners"])
    given_listeners = _addresses("advertised.listeners", typed["advertised.listeners"] or ())
    protocols = protocols_by_name(given, typed, names)
    _check_protocols(listeners, protocols)
    clients = tuple(listener for listener in listeners if listener.name not in names)
    advertised = _advertised(
        clients, [each for each in given_listeners if each.name not in names], is_given=bool(given_listeners)
    )
    for listener in (*advertised, *given_listeners):
        _check_is_reachable(listener, is_given=bool(given_listeners))
    _check_early_start(typed, listeners, names)
    return Listeners(
        all=listeners,
        clients=clients,
        advertised=advertised,
        controllers=tuple(listener for listener in listeners if listener.name in names),
        advertised_controllers=_advertised_controllers(listeners, given_listeners, names),
        controller_names=names,
        protocols=protocols,
    )


def _addresses(setting: str, items: Sequence[str]) -> tuple[ListenerAddress, ...]:
    listeners = tuple(_address(setting, item) for item in items if item)
    names = [listener.name for listener in listeners]
    ports = [listener.port for listener in listeners if listener.port]
    if len(set(names)) != len(names):
        raise RuleBrokenError(f"{setting}: each listener must have a different name")
    if setting == "listeners" and len(set(ports)) != len(ports):
        raise RuleBrokenError(f"{setting}: each listener must have a different port")
    return listeners


def _address(setting: str, item: str) -> ListenerAddress:
    name, separator, address = item.partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and port.isascii() and port.isdigit() and int(port[:6]) <= 65535 and name):
        raise RuleBrokenError(f"{setting}: {item!r} is not a listener; write it as NAME://host:port")
    return ListenerAddress(name=name.upper(), host=host.strip("[]"), port=int(port))


def _check_protocols(listeners: Sequence[ListenerAddress], protocols: Mapping[str, SecurityProtocol]) -> None:
    for listener in listeners:
        if listener.name not in protocols:
            raise RuleBrokenError(f"{PROTOCOL_MAP} has no entry for listener {listener.name}; add it")


def _advertised(
    clients: Sequence[ListenerAddress], given_listeners: Sequence[ListenerAddress], *, is_given: bool
) -> tuple[ListenerAddress, ...]:
    if not is_given:
        return tuple(clients)
    # A node that is only a controller has no listeners for clients, so its advertised addresses for clients do not
    # matter.
    unknown = {listener.name for listener in given_listeners} - {listener.name for listener in clients}
    if unknown and clients:
        raise RuleBrokenError(
            f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners; add it there"
        )
    return tuple(listener for listener in given_listeners if listener.name not in unknown)


def _check_is_reachable(listener: ListenerAddress, *, is_given: bool) -> None:
    if listener.host in _ALL_INTERFACES or (is_given and not listener.host):
        raise RuleBrokenError(
            f"advertised.listeners: {listener.name} would be advertised as {listener.host or 'nothing'}, which is the "
            "address of no machine; name one that clients can reach"
        )


def _advertised_controllers(
    listeners: Sequence[ListenerAddress], given_listeners: Sequence[ListenerAddress], names: Sequence[str]
) -> tuple[ListenerAddress, ...]:
    bound = {listener.name: _without_wildcard(listener) for listener in listeners}
    by_name = bound | {listener.name: listener for listener in given_listeners}
    return tuple(by_name[name] for name in names if name in by_name)


def _without_wildcard(listener: ListenerAddress) -> ListenerAddress:
    host = "" if listener.host in _ALL_INTERFACES else listener.host
    return ListenerAddress(name=listener.name, host=host, port=listener.port)


def _check_early_start(
    typed: Mapping[str, Any], listeners: Sequence[ListenerAddress], controller_names: Sequence[str]
) -> None:
    known = {listener.name for listener in listeners} | set(controller_names)
    for name in typed["early.start.listeners"] or ():
        if name.upper() not in known:
            raise RuleBrokenError(f"early.start.listeners: {name} is not among listeners; name one that is")


def inter_broker_listener(
    given: Mapping[str, str], typed: Mapping[str, Any], listeners: Listeners, *, is_broker: bool, is_alone: bool
) -> str:
    """Return the name of the listener by which brokers connect to each other; the only broker may have any."""
    setting = "inter.broker.listener.name"
    name = typed[setting]
    if name is not None and "security.inter.broker.protocol" in given:
        raise RuleBrokenError(
            f"{setting}: only one of it and security.inter.broker.protocol should be set; leave one of them out"
        )
    if name == "":
        raise RuleBrokenError(f"{setting}: The provided listener name is null or empty string; leave the setting out")
    inter_broker_name: str = (name or typed["security.inter.broker.protocol"]).upper()
    if not is_broker:
        _check_of_controller(inter_broker_name, listeners, is_given=name is not None)
        return inter_broker_name
    names = [listener.name for listener in listeners.advertised]
    if inter_broker_name in names:
        return inter_broker_name
    if name is None and is_alone:
        return names[0]
    raise RuleBrokenError(
        f"{setting}: {inter_broker_name} is not among advertised.listeners; name one that is, of {', '.join(names)}"
    )


def _check_of_controller(inter_broker_name: str, listeners: Listeners, *, is_given: bool) -> None:
    if is_given and inter_broker_name in listeners.controller_names:
        raise RuleBrokenError(
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            "value when process.roles=controller"
        )
    if is_given and inter_broker_name not in listeners.protocols:
        raise RuleBrokenError(
            f"inter.broker.listener.name: {PROTOCOL_MAP} has no entry for {inter_broker_name}; add it"
        )
