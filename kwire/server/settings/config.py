"""From a properties file and overrides to a BrokerConfig: the one place where dotted names become fields.

A value that cannot be used raises SettingError: one line with the setting's name and what to do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.cluster.config_keys import ConfigError, Use, parse
from kwire.cluster.configs.broker import BROKER_KEYS, base_name
from kwire.cluster.directory import read_properties
from kwire.server.settings.setting_rules import RuleBrokenError, check_rules, pairs

logger = logging.getLogger("kwire.server.settings.config")


class SettingError(Exception):
    """A setting cannot be used; the message is one line that names it and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAddress:
    """name://host:port of a listener; an empty host stands for all interfaces."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a node is told at start. `values` are the settings that were given, by their dotted names."""

    values: Mapping[str, str]
    typed: dict[str, Any]
    """Every known key with its parsed value: altered dynamically, given, or default."""
    static: Mapping[str, Any]
    """The same as they were at start."""
    listeners: tuple[ListenerAddress, ...]
    advertised_listeners: tuple[ListenerAddress, ...]
    log_dirs: tuple[str, ...]
    is_default_quorum: bool
    """Whether nothing was said of a quorum: then, and only then, an empty directory is formatted."""

    def __getitem__(self, name: str) -> Any:
        """The parsed value of a key."""
        return self.typed[name]

    @property
    def node_id(self) -> int:
        node_id: int = self.typed["node.id"]
        return node_id

    @property
    def metadata_dir(self) -> str:
        return self.typed["metadata.log.dir"] or self.log_dirs[0]


def parse_override(text: str) -> tuple[str, str]:
    """key=value of --override. Raises SettingError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise SettingError(f"--override {text!r}: write it as key=value")
    return name.strip(), value.strip()


def load_config(file_text: str, overrides: Sequence[tuple[str, str]] = ()) -> BrokerConfig:
    """Read the text of a server.properties; overrides win. Raises SettingError."""
    values = read_properties(file_text)
    values.update(overrides)
    return make_config(values)


def make_config(values: Mapping[str, str]) -> BrokerConfig:
    """A configuration from settings by their dotted names. Raises SettingError."""
    given = {name: value.strip() for name, value in values.items()}
    _name_node_twice(given)
    typed = _typed(given)
    if "queued.max.request.bytes" not in given:
        typed["queued.max.request.bytes"] = max(typed["queued.max.request.bytes"], typed["socket.request.max.bytes"])
    _check_uses(given, typed)
    _check_roles(typed)
    controller_names = set(typed["controller.listener.names"])
    listeners = _listeners("listeners", typed["listeners"])
    _check_protocols(listeners, given, typed)
    client_listeners = tuple(listener for listener in listeners if listener.name not in controller_names)
    if not client_listeners:
        raise SettingError("listeners: names no listener for clients; add one such as PLAINTEXT://127.0.0.1:9092")
    advertised = _advertised(typed, client_listeners, controller_names)
    _check_inter_broker(given, typed, advertised)
    _check_early_start(typed, listeners)
    log_dirs = _log_dirs(typed)
    try:
        check_rules(typed)
    except RuleBrokenError as error:
        raise SettingError(error.reason) from None
    return BrokerConfig(
        values=given,
        typed=typed,
        static=dict(typed),
        listeners=client_listeners,
        advertised_listeners=advertised,
        log_dirs=log_dirs,
        is_default_quorum=not (typed["controller.quorum.voters"] or typed["controller.quorum.bootstrap.servers"]),
    )


def _name_node_twice(given: dict[str, str]) -> None:
    """node.id and broker.id are one thing: each stands for the other where only one is given."""
    if given.get("broker.id") == "-1" and "node.id" not in given:
        del given["broker.id"]
    for one, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if one in given:
            given.setdefault(other, given[one])
    if given.get("node.id") != given.get("broker.id"):
        raise SettingError("node.id: You must set `node.id` to the same value as `broker.id`.")


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, key in BROKER_KEYS.items():
        try:
            typed[name] = parse(key, given.get(name, key.default))
        except ConfigError as error:
            raise SettingError(f"{name}: {error}") from None
    return typed


def _check_uses(given: Mapping[str, str], typed: Mapping[str, Any]) -> None:
    """Refuse what would promise too much; say once what has no effect."""
    ignored = []
    for name in sorted(given):
        base = base_name(name)
        key = BROKER_KEYS.get(base)
        if key is None:
            logger.warning("the setting %s is not known here and has no effect", name)
        elif key.use is Use.REFUSED and (base != name or typed[name] != parse(key, key.default)):
            raise SettingError(f"{name}: is not served yet, only its default; leave the setting out")
        elif key.use is Use.IGNORED or base != name:
            ignored.append(name)
    if ignored:
        logger.info("settings that are accepted and have no effect here: %s", ", ".join(ignored))


def _check_roles(typed: Mapping[str, Any]) -> None:
    roles = set(typed["process.roles"])
    if roles != {"broker", "controller"}:
        raise SettingError(
            f"process.roles: {','.join(typed['process.roles'])} is not served yet; use broker,controller"
        )
    voters = typed["controller.quorum.voters"]
    if len(voters) > 1 or (voters and not voters[0].startswith(f"{typed['node.id']}@")):
        raise SettingError(
            "controller.quorum.voters: only a quorum of this node alone is served yet; name just this node"
        )


def _listeners(setting: str, items: Sequence[str]) -> tuple[ListenerAddress, ...]:
    listeners = tuple(_listener(setting, item) for item in items if item)
    names = [listener.name for listener in listeners]
    ports = [listener.port for listener in listeners if listener.port]
    if len(set(names)) != len(names):
        raise SettingError(f"{setting}: each listener must have a different name")
    if setting == "listeners" and len(set(ports)) != len(ports):
        raise SettingError(f"{setting}: each listener must have a different port")
    return listeners


def _listener(setting: str, item: str) -> ListenerAddress:
    name, separator, address = item.partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and port.isascii() and port.isdigit() and int(port[:6]) <= 65535 and name):
        raise SettingError(f"{setting}: {item!r} is no listener; write it as NAME://host:port")
    return ListenerAddress(name=name.upper(), host=host.strip("[]"), port=int(port))


def _check_protocols(listeners: Sequence[ListenerAddress], given: Mapping[str, str], typed: Mapping[str, Any]) -> None:
    protocols = _protocols(typed)
    for listener in listeners:
        is_controller = listener.name in typed["controller.listener.names"]
        needs_no_entry = is_controller and "listener.security.protocol.map" not in given
        protocol = protocols.get(listener.name, "PLAINTEXT" if needs_no_entry else None)
        if protocol is None:
            raise SettingError(f"listener.security.protocol.map: says nothing of listener {listener.name}; add it")
        if protocol != "PLAINTEXT":
            raise SettingError(
                f"listeners: {listener.name} uses {protocol}, which is not served yet; use a PLAINTEXT listener"
            )


def _protocols(typed: Mapping[str, Any]) -> dict[str, str]:
    """Security protocols by listener name, both in capitals."""
    setting = "listener.security.protocol.map"
    try:
        found = pairs(setting, typed[setting])
    except RuleBrokenError:
        raise SettingError(f"{setting}: {typed[setting]!r} is not of the form NAME:PROTOCOL,...") from None
    for protocol in found.values():
        if protocol.upper() not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
            raise SettingError(f"{setting}: Invalid security protocol `{protocol}` defined in {setting}")
    return {name.upper(): protocol.upper() for name, protocol in found.items()}


def _check_inter_broker(
    given: Mapping[str, str], typed: Mapping[str, Any], advertised: Sequence[ListenerAddress]
) -> None:
    name = typed["inter.broker.listener.name"]
    if name is None:
        return
    if "security.inter.broker.protocol" in given:
        raise SettingError(
            "inter.broker.listener.name: only one of it and security.inter.broker.protocol should be set; "
            "leave one of them out"
        )
    if name.upper() not in {listener.name for listener in advertised}:
        raise SettingError(f"inter.broker.listener.name: {name} is not among advertised.listeners; name one that is")


def _check_early_start(typed: Mapping[str, Any], listeners: Sequence[ListenerAddress]) -> None:
    known = {listener.name for listener in listeners} | set(typed["controller.listener.names"])
    for name in typed["early.start.listeners"] or ():
        if name.upper() not in known:
            raise SettingError(f"early.start.listeners: {name} is not among listeners; name one that is")


def _advertised(
    typed: Mapping[str, Any], listeners: Sequence[ListenerAddress], controller_names: set[str]
) -> tuple[ListenerAddress, ...]:
    given = typed["advertised.listeners"]
    advertised = tuple(
        listener
        for listener in (_listeners("advertised.listeners", given) if given else listeners)
        if listener.name not in controller_names
    )
    unknown = {listener.name for listener in advertised} - {listener.name for listener in listeners}
    if unknown:
        raise SettingError(f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners; add it there")
    for listener in advertised:
        if listener.host in {"0.0.0.0", "::"} or (given and not listener.host):  # noqa: S104 refused, not bound
            raise SettingError(
                f"advertised.listeners: {listener.name} would be told as {listener.host or 'nothing'}, which is the "
                "address of no machine; name one that clients can reach"
            )
    return advertised


def _log_dirs(typed: Mapping[str, Any]) -> tuple[str, ...]:
    directories = typed["log.dirs"] or typed["log.dir"]
    if len({os.path.realpath(directory) for directory in directories}) != len(directories):
        raise SettingError("log.dirs: names a directory twice")
    return tuple(directories)
