"""Logins of a node: at brokers, whose listener is the inter-broker listener, and at controllers."""

from __future__ import annotations

from kwire.cluster.configs.config_keys import ConfigError
from kwire.cluster.configs.settings import CurrentSettings
from kwire.seams import Clock, Workers
from kwire.server.security.sasl.bearer_client import TokenSettings, TokenSource, read_token_settings
from kwire.server.security.sasl.client import Credentials, NodeLogin, read_credentials
from kwire.server.security.sasl.mechanism import OAUTHBEARER
from kwire.server.settings.config import BrokerConfig, SettingError
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.settings.listener_values import values_of_listener
from kwire.server.settings.setting_rules import RuleBrokenError

_AT_BROKERS = "sasl.mechanism.inter.broker.protocol"
_AT_CONTROLLERS = "sasl.mechanism.controller.protocol"


def check_node_logins(config: BrokerConfig) -> None:
    """Raise SettingError if this node could not log in at other nodes."""
    _at_brokers(config)
    _at_controllers(config)


def login_at_brokers(
    config: BrokerConfig, current: CurrentSettings, dynamic: DynamicConfigs, *, workers: Workers, clock: Clock
) -> NodeLogin | None:
    """Return the login at brokers, which follows altered settings; None if their listener has no SASL."""
    first = _at_brokers(config)
    if first is None:
        return None
    tokens = _tokens(config, first, config.inter_broker_listener_name, workers, clock)

    def credentials() -> Credentials:
        texts = {**config.values, **dynamic.defaults, **dynamic.own}
        return read_credentials(_AT_BROKERS, current.values[_AT_BROKERS], config.inter_broker_listener_name, texts)

    return NodeLogin(credentials, workers=workers, clock=clock, tokens=tokens)


def login_at_controllers(config: BrokerConfig, *, workers: Workers, clock: Clock) -> NodeLogin | None:
    """Return the login at controllers; None if their listener has no SASL."""
    credentials = _at_controllers(config)
    if credentials is None:
        return None
    tokens = _tokens(config, credentials, config.controller_listener_names[0], workers, clock)
    return NodeLogin(lambda: credentials, workers=workers, clock=clock, tokens=tokens)


def _at_brokers(config: BrokerConfig) -> Credentials | None:
    return _credentials(config, _AT_BROKERS, config.inter_broker_listener_name) if config.is_broker else None


def _at_controllers(config: BrokerConfig) -> Credentials | None:
    return _credentials(config, _AT_CONTROLLERS, config.controller_listener_names[0])


def _credentials(config: BrokerConfig, key: str, listener_name: str) -> Credentials | None:
    """Return the credentials for a listener's nodes; None without SASL, or if no other node has the listener."""
    protocol = config.security_protocols.get(listener_name)
    if protocol is None or not protocol.uses_sasl or config.is_default_quorum:
        return None
    try:
        credentials = read_credentials(key, config.parsed[key], listener_name, config.values)
        if credentials.mechanism == OAUTHBEARER:
            _token_settings(config, listener_name)
    except (RuleBrokenError, ConfigError) as error:
        raise SettingError(str(error)) from None
    return credentials


def _tokens(
    config: BrokerConfig, credentials: Credentials, listener_name: str, workers: Workers, clock: Clock
) -> TokenSource | None:
    """Return the tokens for a listener; None if this node logs in there by another mechanism."""
    if credentials.mechanism != OAUTHBEARER:
        return None
    return TokenSource(_token_settings(config, listener_name), workers=workers, clock=clock)


def _token_settings(config: BrokerConfig, listener_name: str) -> TokenSettings:
    values = values_of_listener(listener_name, config.values, config.parsed, mechanism=OAUTHBEARER)
    return read_token_settings(listener_name, values)
