"""Settings of one listener: listener.name.NAME.KEY has precedence over KEY, and ...NAME.MECHANISM.KEY over both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import parse

LISTENER_VALUES: Final = ("ssl.", "sasl.", "connections.max.reauth.ms")
"""Beginnings of the keys that have an effect with the prefix of a listener."""
LISTENER_LIMITS: Final = frozenset({"max.connections", "max.connection.creation.rate"})
"""Settings that limit the connections of all listeners together; with a prefix, those of one listener in addition."""


def values_of_listener(
    name: str, texts: Mapping[str, str], values: Mapping[str, Any], *, mechanism: str = ""
) -> Mapping[str, Any]:
    """Return the typed values of all keys for a listener, or for one SASL mechanism of it.

    `texts` are the settings that were given or altered, with their prefixes; `values` are the typed values of all keys
    without a prefix. Kafka writes the listener's name, and the mechanism, in lower case. Raises ConfigError.
    """
    prefix = f"listener.name.{name.lower()}."
    own = _own_values(prefix, texts)
    if mechanism:
        own |= _own_values(f"{prefix}{mechanism.lower()}.", texts)
    return {**values, **own}


def _own_values(prefix: str, texts: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for full_name, text in texts.items():
        key = BROKER_KEYS.get(full_name[len(prefix) :]) if full_name.startswith(prefix) else None
        if key is not None:
            found[key.name] = parse(key, text)
    return found
