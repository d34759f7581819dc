"""Settings that a broker takes from its properties file only, although Apache Kafka alters them while it runs.

Their values name code to load, files to read, addresses to connect to, or commands to run. A client that may alter
configurations could otherwise make the broker do that (CVE-2025-27818, CVE-2025-27819). Stores of keys and certificates
can be altered as text instead of a file: ssl.keystore.key, ssl.keystore.certificate.chain, ssl.truststore.certificates.
metric.reporters, which Kafka's tools alter, has no effect, and accepts only the name of Kafka's own class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.cluster.configs.broker import BROKER_KEYS, base_name
from kwire.cluster.configs.config_keys import ConfigType

_ENDINGS: Final = (".class", ".class.name", ".class.path", ".cmd", ".file", ".location", ".url")
_OTHERS: Final = frozenset(
    {
        "config.providers",
        "sasl.jaas.config",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Settings whose values name classes, or implementations that a Java runtime would load."""


def is_local(name: str) -> bool:
    """Return True if only the properties file may have the setting; `name` may have the prefix of a listener."""
    base = base_name(name)
    key = BROKER_KEYS.get(base)
    if key is None:
        return False
    return key.type is ConfigType.CLASS or base in _OTHERS or base.endswith(_ENDINGS)


def is_as_in_file(name: str, text: str, texts: Mapping[str, str]) -> bool:
    """Return True if a local setting has this text already.

    `texts` are the settings of the properties file. There, one of all listeners counts for those without their own.
    """
    base = base_name(name)
    return text == texts.get(name, texts.get(base, BROKER_KEYS[base].default))
