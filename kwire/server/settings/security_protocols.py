"""Security protocols of listeners: with or without TLS, with or without SASL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from kwire.server.settings.setting_rules import RuleBrokenError, pairs

PROTOCOL_MAP: Final = "listener.security.protocol.map"


class SecurityProtocol(IntEnum):
    """Kafka's security protocols, with their numbers in registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def protocols_by_name(
    given: Mapping[str, str], typed: Mapping[str, Any], controller_names: Sequence[str]
) -> dict[str, SecurityProtocol]:
    """Return security protocols by listener name in capitals. Without a mapping, controllers' names need no entry.

    Raises RuleBrokenError.
    """
    try:
        found = pairs(PROTOCOL_MAP, typed[PROTOCOL_MAP])
    except RuleBrokenError:
        raise RuleBrokenError(f"{PROTOCOL_MAP}: {typed[PROTOCOL_MAP]!r} is not of the form NAME:PROTOCOL,...") from None
    protocols = {name.upper(): _protocol(text) for name, text in found.items()}
    if PROTOCOL_MAP in given:
        return protocols
    return dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT) | protocols


def _protocol(text: str) -> SecurityProtocol:
    try:
        return SecurityProtocol[text.upper()]
    except KeyError:
        raise RuleBrokenError(f"{PROTOCOL_MAP}: Invalid security protocol `{text}` defined in {PROTOCOL_MAP}") from None
