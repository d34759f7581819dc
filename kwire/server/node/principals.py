"""Principals of clients: those of their login, or those that an installed principal builder makes of them."""

from __future__ import annotations

from typing import Final

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.server.network.principal_builder import PrincipalBuilder, same_principal
from kwire.server.node.plug_ins import load_plug_in
from kwire.server.settings.config import BrokerConfig, SettingError

SETTING: Final = "principal.builder.class"
ENTRY_POINTS: Final = "kwire.principal_builders"
"""Group of entry points: each is a function of a node's settings, by their names, that returns a PrincipalBuilder."""


def make_principal_builder(config: BrokerConfig) -> PrincipalBuilder:
    """Return the principal builder that the settings name. Raises SettingError."""
    default = BROKER_KEYS[SETTING].default
    if config.parsed[SETTING] == default:
        return same_principal
    builder: PrincipalBuilder = load_plug_in(config, SETTING, group=ENTRY_POINTS, own=str(default))
    if not callable(builder):
        raise SettingError(f"{SETTING}: {config.parsed[SETTING]} has not returned a function")
    return builder
