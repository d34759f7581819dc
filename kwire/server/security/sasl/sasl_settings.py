"""SASL settings of one listener: its mechanisms, their login modules, and the lifetime of sessions.

A login module is given as listener.name.NAME.MECHANISM.sasl.jaas.config, with name and mechanism in lower case.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kwire.server.security.sasl.jaas import (
    KERBEROS_MODULE,
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    LoginModule,
    parse_jaas,
)
from kwire.server.security.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN, SERVED
from kwire.server.security.sasl.oauthbearer import BearerSettings, read_bearer_settings
from kwire.server.settings.listener_values import values_of_listener
from kwire.server.settings.setting_rules import RuleBrokenError

if TYPE_CHECKING:
    from kwire.server.security.sasl.kerberos_settings import KerberosSettings

logger = logging.getLogger(__name__)

MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
JAAS_KEY: Final = "sasl.jaas.config"
_MODULES: Final = {PLAIN: PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE, GSSAPI: KERBEROS_MODULE}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    """Enabled mechanisms, as they are offered to clients."""
    receive_bytes_max: int
    """Largest frame of a client that has not authenticated."""
    modules: Mapping[str, LoginModule] = field(repr=False)
    """Login modules by mechanism; SCRAM needs one only for connections to other nodes."""
    bearer_tokens: BearerSettings | None
    """Settings of tokens, if OAUTHBEARER is enabled."""
    kerberos: KerberosSettings | None
    """Settings of Kerberos, if GSSAPI is enabled."""
    reauthentication_ms: Mapping[str, int]
    """Longest lifetime of a session by mechanism; 0 for no limit."""


def read_sasl_settings(name: str, texts: Mapping[str, str], values: Mapping[str, Any]) -> SaslSettings:
    """Return the SASL settings of a listener.

    `texts` are the given or altered settings with their prefixes, `values` the typed values of all keys without
    prefix. Raises RuleBrokenError or ConfigError, with one line that names the key.
    """
    own = values_of_listener(name, texts, values)
    mechanisms = tuple(own[MECHANISMS_KEY])
    _check_mechanisms(name, mechanisms)
    modules = {mechanism: module for mechanism in mechanisms if (module := read_module(name, mechanism, texts))}
    if PLAIN in mechanisms and PLAIN not in modules:
        raise RuleBrokenError(f"{jaas_key(name, PLAIN)}: is missing; give the users of {PLAIN} there")
    bearer_tokens = None
    if OAUTHBEARER in mechanisms:
        bearer_tokens = read_bearer_settings(name, values_of_listener(name, texts, values, mechanism=OAUTHBEARER))
    kerberos = None
    if GSSAPI in mechanisms:
        # Other brokers start without the modules of Kerberos.
        from kwire.server.security.sasl.kerberos_settings import read_kerberos_settings  # noqa: PLC0415

        of_gssapi = values_of_listener(name, texts, values, mechanism=GSSAPI)
        kerberos = read_kerberos_settings(jaas_key(name, GSSAPI), modules.get(GSSAPI), of_gssapi)
    return SaslSettings(
        mechanisms=mechanisms,
        kerberos=kerberos,
        bearer_tokens=bearer_tokens,
        receive_bytes_max=own["sasl.server.max.receive.size"],
        modules=modules,
        reauthentication_ms={
            mechanism: values_of_listener(name, texts, values, mechanism=mechanism)["connections.max.reauth.ms"]
            for mechanism in mechanisms
        },
    )


def jaas_key(listener_name: str, mechanism: str) -> str:
    """Return the key of the login module of a listener's mechanism."""
    return f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{JAAS_KEY}"


def _check_mechanisms(name: str, mechanisms: tuple[str, ...]) -> None:
    other = [mechanism for mechanism in mechanisms if mechanism not in SERVED]
    if other or not mechanisms:
        named = f"{', '.join(other)} is not served" if other else "is empty"
        raise RuleBrokenError(f"{MECHANISMS_KEY}: {named} on listener {name}; use some of {','.join(SERVED)}")


def read_module(name: str, mechanism: str, texts: Mapping[str, str]) -> LoginModule | None:
    """Return the login module of a listener's mechanism; None without one. Raises RuleBrokenError."""
    key = jaas_key(name, mechanism)
    text = texts.get(key)
    return None if text is None else module_of(key, mechanism, text)


def module_of(key: str, mechanism: str, text: str) -> LoginModule:
    """Return the login module of a mechanism; `text` is the value of the setting `key`. Raises RuleBrokenError."""
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise RuleBrokenError(f"{key}: {error}") from None
    expected = _MODULES.get(mechanism, SCRAM_MODULE)
    if module.name != expected:
        raise RuleBrokenError(f"{key}: does not begin with the login module of {mechanism}; use {expected}")
    return module
