"""Plug-ins of a node: functions that programs install as entry points, and that settings name."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from kwire.server.settings.config import BrokerConfig, SettingError


def load_plug_in(config: BrokerConfig, setting: str, *, group: str, own: str) -> Any:
    """Return what the entry point that a setting names makes of the node's settings.

    `own` is the name of kwire's own choice, for the message. Raises SettingError.
    """
    name = config.parsed[setting]
    found = entry_points(group=group)
    if name not in found.names:
        others = "".join(f", {each}" for each in sorted(found.names))
        raise SettingError(f"{setting}: no entry point of the group {group} is called {name}; there are {own}{others}")
    try:
        return found[name].load()(dict(config.values))
    except Exception as error:
        raise SettingError(f"{setting}: {name} cannot be started: {type(error).__name__}: {error}") from error
