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
    """Return security protocols by listener name in capitals.

    The controllers of a node that is the whole quorum need no entry. Those of other nodes need none without a mapping,
    while no listener has the name of another protocol, as in Apache Kafka: a controller beside clients with TLS is not
    plaintext without a word of the operator. Raises RuleBrokenError.
    """
    try:
        found = pairs(PROTOCOL_MAP, typed[PROTOCOL_MAP])
    except RuleBrokenError:
        raise RuleBrokenError(f"{PROTOCOL_MAP}: {typed[PROTOCOL_MAP]!r} is not of the form NAME:PROTOCOL,...") from None
    protocols = {name.upper(): _protocol(text) for name, text in found.items()}
    has_quorum = typed["controller.quorum.voters"] or typed["controller.quorum.bootstrap.servers"]
    is_secure = any(_is_secure(name) for name in (*controller_names, *_bound_names(typed)))
    if has_quorum and (PROTOCOL_MAP in given or is_secure):
        return protocols
    return dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT) | protocols


def _bound_names(typed: Mapping[str, Any]) -> list[str]:
    return [item.partition("://")[0] for item in typed["listeners"]]


def _is_secure(name: str) -> bool:
    return name.upper() in SecurityProtocol.__members__ and name.upper() != SecurityProtocol.PLAINTEXT.name


def _protocol(text: str) -> SecurityProtocol:
    try:
        return SecurityProtocol[text.upper()]
    except KeyError:
        raise RuleBrokenError(f"{PROTOCOL_MAP}: Invalid security protocol `{text}` defined in {PROTOCOL_MAP}") from None
