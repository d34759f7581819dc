"""Authorizer of a node, by the setting authorizer.class.name."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.security.authorizer import AllowEverything, Authorizer
from kwire.cluster.security.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from kwire.server.settings.config import BrokerConfig, SettingError

SETTING: Final = "authorizer.class.name"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's name of the standard authorizer, so that a server.properties works unchanged."""
ENTRY_POINTS: Final = "kwire.authorizers"
"""Group of entry points: each is a function of a node's settings, by their names, that returns an Authorizer."""


def make_authorizer(config: BrokerConfig, settings: CurrentSettings) -> Authorizer:
    """Return the authorizer that the settings name. Raises SettingError."""
    name = config.parsed[SETTING]
    if not name:
        return AllowEverything()
    if name == STANDARD:
        return StandardAuthorizer(settings.of(AuthorizerSettings))
    return _installed(name, config)


def _installed(name: str, config: BrokerConfig) -> Authorizer:
    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        others = "".join(f", {each}" for each in sorted(found.names))
        raise SettingError(f"{SETTING}: no authorizer is called {name}; there are {STANDARD}{others}")
    try:
        authorizer = found[name].load()(dict(config.values))
    except Exception as error:
        raise SettingError(f"{SETTING}: {name} cannot be started: {type(error).__name__}: {error}") from error
    if not isinstance(authorizer, Authorizer):
        raise SettingError(f"{SETTING}: {name} is not a kwire.cluster.security.authorizer.Authorizer")
    return authorizer
