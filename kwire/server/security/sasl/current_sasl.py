"""SASL settings of a node's listeners: at start, and as dynamic configuration changes them."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import Any, Final

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.cluster.configs.settings import CurrentSettings
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.security.sasl.mechanism import PLAIN, RULES_KEY, SERVICE_KEY
from kwire.server.security.sasl.sasl_settings import MECHANISMS_KEY, SaslSettings, read_sasl_settings
from kwire.server.settings.config import BrokerConfig, ListenerAddress, SettingError
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.settings.setting_rules import RuleBrokenError

logger = logging.getLogger(__name__)

_ALTERABLE: Final = (MECHANISMS_KEY, RULES_KEY, SERVICE_KEY)
"""Settings of SASL that are altered without the prefix of a listener; others are checked with their prefix alone."""


def sasl_settings_at_start(address: ListenerAddress, config: BrokerConfig) -> SaslSettings:
    """Return the SASL settings of a listener. Raises SettingError. Warns about passwords that travel unprotected."""
    try:
        settings = read_sasl_settings(address.name, config.values, config.parsed)
        if settings.kerberos is not None:
            from kwire.server.security.sasl.gssapi_server import KerberosAcceptor  # noqa: PLC0415 as in sasl_settings

            KerberosAcceptor(address.name, settings.kerberos)  # the keys must be there
    except (RuleBrokenError, ConfigError) as error:
        raise SettingError(str(error)) from None
    uses_tls = config.security_protocols[address.name].uses_tls
    if PLAIN in settings.mechanisms and not uses_tls and not _is_loopback(address.host):
        logger.warning(
            "listener %s at %s accepts passwords without TLS, so that they cross the network in plain text; "
            "use SASL_SSL, or a SCRAM mechanism",
            address.name,
            address.host or "all interfaces",
        )
    return settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class CurrentSaslSettings:
    """SASL settings of one listener as they are now."""

    def __init__(self, name: str, config: BrokerConfig, current: CurrentSettings, dynamic: DynamicConfigs) -> None:
        self._name = name
        self._config = config
        self._current = current
        self._dynamic = dynamic
        self._values: Mapping[str, object] = {}
        self._settings: SaslSettings | None = None

    def __call__(self) -> SaslSettings:
        """Return the settings. Altered ones that cannot be used have no effect; the log says so once."""
        values = self._current.values
        if values is not self._values or self._settings is None:
            self._values = values
            texts = {**self._config.values, **self._dynamic.defaults, **self._dynamic.own}
            try:
                self._settings = read_sasl_settings(self._name, texts, values)
            except (RuleBrokenError, ConfigError) as error:
                if self._settings is None:
                    self._settings = read_sasl_settings(self._name, self._config.values, self._config.parsed)
                logger.error("altered SASL settings of listener %s have no effect: %s", self._name, error)  # noqa: TRY400 no traceback
        return self._settings


def check_altered_sasl(
    config: BrokerConfig,
    settings_now: CurrentSettings,
    dynamic: DynamicConfigs,
    values: Mapping[str, str],
    *,
    per_broker: bool,
) -> None:
    """Raise KafkaError if `values`, as the broker's own (or the default) configuration, break a listener with SASL."""
    layers = (dynamic.defaults, values) if per_broker else (values, dynamic.own)
    texts = {**config.values, **layers[0], **layers[1]}
    for address in (*config.listeners, *config.controller_listeners):
        if config.security_protocols[address.name].uses_sasl:
            try:
                read_sasl_settings(address.name, texts, _typed(settings_now.at_start, texts))
            except (RuleBrokenError, ConfigError) as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _typed(values: Mapping[str, Any], texts: Mapping[str, str]) -> Mapping[str, Any]:
    altered = {key: parse(BROKER_KEYS[key], texts[key]) for key in _ALTERABLE if key in texts}
    return {**values, **altered}
