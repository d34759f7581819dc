"""Authorizer of a node, by the setting authorizer.class.name."""

from __future__ import annotations

from typing import Final

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.security.authorizer import AllowEverything, Authorizer
from kwire.cluster.security.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from kwire.server.node.plug_ins import load_plug_in
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
    return _installed(config)


def _installed(config: BrokerConfig) -> Authorizer:
    authorizer = load_plug_in(config, SETTING, group=ENTRY_POINTS, own=STANDARD)
    if not isinstance(authorizer, Authorizer):
        raise SettingError(f"{SETTING}: {config.parsed[SETTING]} is not a kwire.cluster.security.authorizer.Authorizer")
    return authorizer
