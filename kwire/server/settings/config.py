"""Configuration of a node: a BrokerConfig with the settings of a properties file and overrides.

A setting that cannot be used raises SettingError: one line with the setting's name and what to do.
"""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kwire.cluster.configs.broker import AUTHORIZER_KEYS, BROKER_KEYS, base_name
from kwire.cluster.configs.config_keys import ConfigError, Use, parse
from kwire.properties_files import read_properties
from kwire.server.settings.listener_values import LISTENER_LIMITS, LISTENER_VALUES
from kwire.server.settings.listeners import ListenerAddress, inter_broker_listener, read_listeners
from kwire.server.settings.quorum import BROKER, CONTROLLER, check_quorum, read_quorum
from kwire.server.settings.security_protocols import SecurityProtocol
from kwire.server.settings.setting_rules import RuleBrokenError, check_rules

__all__ = ["BrokerConfig", "ListenerAddress", "SettingError", "load_config", "make_config", "parse_override"]

logger = logging.getLogger(__name__)

STRING_BYTES_MAX = 2**15 - 1
_PATHS = frozenset({"log.dir", "log.dirs", "metadata.log.dir", "cordoned.log.dirs"})


class SettingError(Exception):
    """Error of a setting that cannot be used; the message is one line that names it and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Configuration of a node. `values` are the settings that were given, by their dotted names.

    Neither they nor the parsed ones are in its repr: they may have passwords.
    """

    values: Mapping[str, str] = field(repr=False)
    parsed: Mapping[str, Any] = field(repr=False)
    """Every known key with its parsed value: given, or default."""
    roles: frozenset[str]
    """Roles of the node: broker, controller, or both."""
    listeners: tuple[ListenerAddress, ...]
    """Listeners for clients and other brokers; empty on a node that is only a controller."""
    advertised_listeners: tuple[ListenerAddress, ...]
    inter_broker_listener_name: str
    """Name of the advertised listener by which brokers connect to each other."""
    controller_listeners: tuple[ListenerAddress, ...]
    """Listeners of the controller; empty on a broker only, and on a node that is the whole
    quorum without such a setting.
    """
    advertised_controller_listeners: tuple[ListenerAddress, ...]
    """Advertised listeners of the controller, in the order of controller.listener.names; an empty host
    stands for this machine's name.
    """
    controller_listener_names: tuple[str, ...]
    """Listener names of controllers; by the first, replicas of the metadata log connect to each other."""
    security_protocols: Mapping[str, SecurityProtocol]
    """Security protocols by listener name, also of listeners of other nodes."""
    quorum_voters: tuple[tuple[int, str, int], ...]
    """Tuples (id, host, port) of a static quorum's voters, by id; empty if the metadata log stores the voters."""
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    """Pairs (host, port) of controllers that can name the leader."""
    log_dirs: tuple[str, ...]
    """Absolute paths, because the program may change its current directory."""
    metadata_dir: str
    is_default_quorum: bool
    """True if no quorum is configured. Only then a start formats an empty directory."""

    @property
    def node_id(self) -> int:
        node_id: int = self.parsed["node.id"]
        return node_id

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles


def parse_override(text: str) -> tuple[str, str]:
    """Return (key, value) of an --override key=value. Raises SettingError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise SettingError(f"--override {text!r}: write it as key=value")
    return name.strip(), value.strip()


def load_config(file_text: str, overrides: Sequence[tuple[str, str]] = ()) -> BrokerConfig:
    """Read the text of a server.properties; overrides take precedence. Raises SettingError."""
    try:
        values = read_properties(file_text)
    except ValueError as error:
        raise SettingError(f"the settings cannot be read: {error}") from None
    values.update(overrides)
    return make_config(values)


def make_config(values: Mapping[str, str]) -> BrokerConfig:
    """Return a configuration from settings by their dotted names. Raises SettingError."""
    given = {name: value.strip() for name, value in values.items()}
    for name, value in given.items():
        _check_text(f"the name {name!r}", name, "strict")
        _check_text(name, value, "surrogateescape" if name in _PATHS else "strict")
        if len(value) > STRING_BYTES_MAX and name not in _PATHS:
            raise SettingError(f"{name}: is longer than {STRING_BYTES_MAX} characters; use a shorter value")
    _name_node_twice(given)
    typed = _typed(given)
    if "queued.max.request.bytes" not in given:
        typed["queued.max.request.bytes"] = max(typed["queued.max.request.bytes"], typed["socket.request.max.bytes"])
    _check_uses(given, typed)
    try:
        return _consistent(given, typed)
    except RuleBrokenError as error:
        raise SettingError(error.reason) from None


def _consistent(given: Mapping[str, str], typed: dict[str, Any]) -> BrokerConfig:
    """Return the configuration if the settings are consistent. Raises RuleBrokenError."""
    quorum = read_quorum(typed)
    listeners = read_listeners(given, typed)
    _warn_of_other_listeners(given, listeners.protocols)
    check_quorum(quorum, listeners, typed)
    is_broker, is_controller = BROKER in quorum.roles, CONTROLLER in quorum.roles
    inter_broker = inter_broker_listener(given, typed, listeners, is_broker=is_broker, is_alone=quorum.is_default)
    log_dirs = _log_dirs(typed)
    check_rules(typed)
    return BrokerConfig(
        values=given,
        parsed=MappingProxyType(dict(typed)),
        roles=quorum.roles,
        listeners=listeners.clients,
        advertised_listeners=listeners.advertised if is_broker else (),
        inter_broker_listener_name=inter_broker,
        controller_listeners=listeners.controllers,
        advertised_controller_listeners=listeners.advertised_controllers if is_controller else (),
        controller_listener_names=listeners.controller_names,
        security_protocols=MappingProxyType(dict(listeners.protocols)),
        quorum_voters=quorum.voters,
        quorum_bootstrap_servers=quorum.bootstrap_servers,
        log_dirs=log_dirs,
        metadata_dir=_absolute(typed["metadata.log.dir"] or log_dirs[0]),
        is_default_quorum=quorum.is_default,
    )


def _check_text(what: str, text: str, errors: str) -> None:
    """Raise SettingError for a NUL or a lone surrogate, which neither a path nor a metadata record can contain.

    The bytes of a path need not be valid UTF-8: Python decodes other bytes to lone surrogates and encodes them back.
    """
    key = BROKER_KEYS.get(base_name(what))
    shown = "its value" if key is not None and key.sensitive else repr(text)
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError:
        raise SettingError(f"{what}: {shown} has half of a character") from None
    if "\0" in text:
        raise SettingError(f"{what}: {shown} has a NUL")


def _name_node_twice(given: dict[str, str]) -> None:
    """Set both node.id and broker.id if only one is given: they have the same meaning."""
    if given.get("broker.id") == "-1" and "node.id" not in given:
        del given["broker.id"]
    for one, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if one in given:
            given.setdefault(other, given[one])
    if given.get("node.id") != given.get("broker.id"):
        raise SettingError("node.id: You must set `node.id` to the same value as `broker.id`.")


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, key in (*BROKER_KEYS.items(), *AUTHORIZER_KEYS.items()):
        try:
            typed[name] = parse(key, given.get(name, key.default))
        except ConfigError as error:
            raise SettingError(f"{name}: {error}") from None
    for name, text in given.items():
        _check_prefixed(name, text)
    return typed


def _check_prefixed(name: str, text: str) -> None:
    """Raise SettingError for the setting of one listener whose value is invalid."""
    key = BROKER_KEYS.get(base_name(name))
    if key is None or key.name == name:
        return
    try:
        parse(key, text)
    except ConfigError as error:
        raise SettingError(f"{name}: {error}") from None


def _check_uses(given: Mapping[str, str], typed: Mapping[str, Any]) -> None:
    """Reject settings that kwire does not implement; log once those that have no effect."""
    ignored = []
    for name in sorted(given):
        base = base_name(name)
        key = BROKER_KEYS.get(base)
        if key is None and name not in AUTHORIZER_KEYS:
            logger.warning("the setting %s is unknown and has no effect", name)
        elif key is None:
            continue
        elif key.use is Use.REJECTED and (base != name or typed[name] != parse(key, key.default)):
            raise SettingError(f"{name}: is not served yet, only its default; leave the setting out")
        elif key.use is Use.IGNORED or (base != name and not _is_of_listener(base)):
            ignored.append(name)
    if ignored:
        logger.info("settings that are accepted without effect: %s", ", ".join(ignored))


def _warn_of_other_listeners(given: Mapping[str, str], names: Iterable[str]) -> None:
    """Log settings of a listener that is not there: with a misspelt name they would protect nothing."""
    known = {name.lower() for name in names}
    for name in sorted(given):
        if base_name(name) != name and (listener := name.split(".")[2]) not in known:
            logger.warning("the setting %s has no effect: no listener has the name %s in lower case", name, listener)


def _is_of_listener(base: str) -> bool:
    """Return True for a key that has an effect with a listener's prefix."""
    return base.startswith(LISTENER_VALUES) or base in LISTENER_LIMITS


def _log_dirs(typed: Mapping[str, Any]) -> tuple[str, ...]:
    directories = tuple(_absolute(directory) for directory in typed["log.dirs"] or typed["log.dir"])
    if len({os.path.realpath(directory) for directory in directories}) != len(directories):
        raise RuleBrokenError("log.dirs: names a directory twice")
    return directories


def _absolute(directory: str) -> str:
    try:
        return posixpath.abspath(directory)
    except FileNotFoundError:
        raise RuleBrokenError(f"log.dirs: {directory} is in the current directory, which was deleted") from None
