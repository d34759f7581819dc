"""Settings of a client in a properties file, as the option --command-config of Kafka's tools has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kwire.cluster.configs.broker import BROKER_KEYS, default_settings
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.properties_files import read_properties
from kwire.seams import SystemClock, ThreadWorkers
from kwire.server.network.outgoing.security import OutgoingSecurity
from kwire.server.security.sasl.client import NodeLogin, credentials_in
from kwire.server.security.sasl.mechanism import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from kwire.server.security.sasl.sasl_settings import JAAS_KEY, module_of
from kwire.server.security.tls.listener_tls import ListenerTls, open_tls
from kwire.server.security.tls.tls_settings import ListenerRole, TlsRejected, settings_of_listener
from kwire.server.settings.config import SettingError
from kwire.server.settings.security_protocols import SecurityProtocol

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)


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
    if name not in SecurityProtocol.__members__:
        raise SettingError(f"{_PROTOCOL}: {name} is unknown; use one of {', '.join(SecurityProtocol.__members__)}")
    protocol = SecurityProtocol[name]
    tls = _tls(protocol, texts) if protocol.uses_tls else None
    return OutgoingSecurity(name, tls, _login(texts) if protocol.uses_sasl else None)


def _tls(protocol: SecurityProtocol, texts: Mapping[str, str]) -> ListenerTls:
    values = default_settings()
    for key, text in texts.items():
        if key.startswith("ssl.") and key in BROKER_KEYS:
            try:
                values[key] = parse(BROKER_KEYS[key], text.strip())
            except ConfigError as error:
                raise SettingError(str(error)) from None
    name = protocol.name
    role = ListenerRole(name=name, is_bound=False, is_outgoing=True, uses_sasl=protocol.uses_sasl, trusts_itself=False)
    return ListenerTls(role, open_tls(role, settings_of_listener(name, protocol, {}, values)))


def _login(texts: Mapping[str, str]) -> NodeLogin:
    mechanism = texts.get(_MECHANISM, "").strip()
    if mechanism not in _MECHANISMS:
        raise SettingError(f"{_MECHANISM}: {mechanism or 'nothing'} is not served; use {' or '.join(_MECHANISMS)}")
    credentials = credentials_in(module_of(JAAS_KEY, mechanism, texts.get(JAAS_KEY, "")), mechanism)
    if credentials is None:
        raise SettingError(f"{JAAS_KEY}: has no username and password; add them")
    return NodeLogin(lambda: credentials, workers=ThreadWorkers(1), clock=SystemClock())
