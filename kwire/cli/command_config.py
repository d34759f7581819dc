"""Settings of a client in a properties file, as the option --command-config of Kafka's tools has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kwire.cluster.configs.broker import BROKER_KEYS, default_settings
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.properties_files import read_properties
from kwire.server.network.outgoing.security import PLAINTEXT, OutgoingSecurity
from kwire.server.security.tls.listener_tls import ListenerTls, open_tls
from kwire.server.security.tls.tls_settings import ListenerRole, TlsRejected, settings_of_listener
from kwire.server.settings.config import SettingError
from kwire.server.settings.security_protocols import SecurityProtocol

_PROTOCOL: Final = "security.protocol"
_SERVED: Final = (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL)


def security_of(path: Path) -> OutgoingSecurity:
    """Return the security that a file describes. Raises SettingError, one line that names the file."""
    try:
        return _security(read_properties(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingError(f"--command-config: {path} cannot be read: {error.strerror}") from None
    except (ValueError, SettingError, TlsRejected) as error:
        raise SettingError(f"--command-config {path}: {error}") from None


def _security(texts: Mapping[str, str]) -> OutgoingSecurity:
    name = texts.get(_PROTOCOL, SecurityProtocol.PLAINTEXT.name).strip().upper()
    if name not in [each.name for each in _SERVED]:
        raise SettingError(f"{_PROTOCOL}: {name} is not served; use {' or '.join(each.name for each in _SERVED)}")
    protocol = SecurityProtocol[name]
    if not protocol.uses_tls:
        return PLAINTEXT
    values = default_settings()
    for key, text in texts.items():
        if key.startswith("ssl.") and key in BROKER_KEYS:
            try:
                values[key] = parse(BROKER_KEYS[key], text.strip())
            except ConfigError as error:
                raise SettingError(str(error)) from None
    role = ListenerRole(name=name, is_bound=False, is_outgoing=True, uses_sasl=False, trusts_itself=False)
    return OutgoingSecurity(name, ListenerTls(role, open_tls(role, settings_of_listener(name, protocol, {}, values))))
