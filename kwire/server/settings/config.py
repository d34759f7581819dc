"""From a properties file and overrides to a BrokerConfig: the one place where dotted names become fields.

A value that cannot be used raises SettingError: one line with the setting's name and what to do.
"""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.cluster.config_keys import ConfigError, Use, parse
from kwire.cluster.configs.broker import BROKER_KEYS, base_name
from kwire.properties_files import read_properties
from kwire.server.settings.listeners import ListenerAddress, inter_broker_listener, read_listeners
from kwire.server.settings.quorum import BROKER, CONTROLLER, check_quorum, read_quorum
from kwire.server.settings.setting_rules import RuleBrokenError, check_rules

__all__ = ["BrokerConfig", "ListenerAddress", "SettingError", "load_config", "make_config", "parse_override"]

logger = logging.getLogger(__name__)

STRING_BYTES_MAX = 2**15 - 1
_PATHS = frozenset({"log.dir", "log.dirs", "metadata.log.dir", "cordoned.log.dirs"})


class SettingError(Exception):
    """A setting cannot be used; the message is one line that names it and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a node is told at start. `values` are the settings that were given, by their dotted names."""

    values: Mapping[str, str]
    typed: dict[str, Any]
    """Every known key with its parsed value: altered dynamically, given, or default."""
    static: Mapping[str, Any]
    """The same as they were at start."""
    roles: frozenset[str]
    """broker, controller, or both."""
    listeners: tuple[ListenerAddress, ...]
    """Those of clients and other brokers; empty in a node that is a controller only."""
    advertised_listeners: tuple[ListenerAddress, ...]
    inter_broker_listener_name: str
    """Of the advertised listeners of other brokers, the one to reach them by."""
    controller_listeners: tuple[ListenerAddress, ...]
    """Empty in a node that is a broker only, and in one that is the whole quorum and does not say where."""
    advertised_controller_listeners: tuple[ListenerAddress, ...]
    """What other nodes are told of the controller, in the order of controller.listener.names; an empty host stands for
    this machine's name."""
    controller_listener_names: tuple[str, ...]
    """The first is the one by which replicas of the metadata log reach each other."""
    quorum_voters: tuple[tuple[int, str, int], ...]
    """(id, host, port) of each voter of a static quorum, by id; empty when the metadata log says who votes."""
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    """(host, port) of controllers to ask who leads."""
    log_dirs: tuple[str, ...]
    """Absolute paths, as the program may change its directory."""
    metadata_dir: str
    is_default_quorum: bool
    """Whether nothing was said of a quorum: then, and only then, an empty directory is formatted by a start."""

    def __getitem__(self, name: str) -> Any:
        """The parsed value of a key."""
        return self.typed[name]

    @property
    def node_id(self) -> int:
        node_id: int = self.typed["node.id"]
        return node_id

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles


def parse_override(text: str) -> tuple[str, str]:
    """key=value of --override. Raises SettingError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise SettingError(f"--override {text!r}: write it as key=value")
    return name.strip(), value.strip()


def load_config(file_text: str, overrides: Sequence[tuple[str, str]] = ()) -> BrokerConfig:
    """Read the text of a server.properties; overrides win. Raises SettingError."""
    try:
        values = read_properties(file_text)
    except ValueError as error:
        raise SettingError(f"the settings cannot be read: {error}") from None
    values.update(overrides)
    return make_config(values)


def make_config(values: Mapping[str, str]) -> BrokerConfig:
    """A configuration from settings by their dotted names. Raises SettingError."""
    given = {name: value.strip() for name, value in values.items()}
    for name, value in given.items():
        _check_text(f"the name {name!r}", name, "strict")
        _check_text(name, value, "surrogateescape" if name in _PATHS else "strict")
        if len(value) > STRING_BYTES_MAX and name not in _PATHS:
            raise SettingError(f"{name}: is longer than {STRING_BYTES_MAX} characters, which no node could be told")
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
    """The configuration, when the settings can be together. Raises RuleBrokenError."""
    quorum = read_quorum(typed)
    listeners = read_listeners(given, typed)
    check_quorum(quorum, listeners, given=given, typed=typed)
    is_broker, is_controller = BROKER in quorum.roles, CONTROLLER in quorum.roles
    inter_broker = inter_broker_listener(given, typed, listeners, is_broker=is_broker, is_alone=quorum.is_default)
    log_dirs = _log_dirs(typed)
    check_rules(typed)
    return BrokerConfig(
        values=given,
        typed=typed,
        static=dict(typed),
        roles=quorum.roles,
        listeners=listeners.clients,
        advertised_listeners=listeners.advertised if is_broker else (),
        inter_broker_listener_name=inter_broker,
        controller_listeners=listeners.controllers,
        advertised_controller_listeners=listeners.advertised_controllers if is_controller else (),
        controller_listener_names=listeners.controller_names,
        quorum_voters=quorum.voters,
        quorum_bootstrap_servers=quorum.bootstrap_servers,
        log_dirs=log_dirs,
        metadata_dir=_absolute(typed["metadata.log.dir"] or log_dirs[0]),
        is_default_quorum=quorum.is_default,
    )


def _check_text(what: str, text: str, errors: str) -> None:
    """Refuse what neither a path nor a record of the metadata log can hold: NUL, and half of a character.

    Of a path the system need not know the characters: Python writes other bytes as halves that it reads back.
    """
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError:
        raise SettingError(f"{what}: {text!r} has half of a character") from None
    if "\0" in text:
        raise SettingError(f"{what}: {text!r} has a NUL")


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
