"""Warning about listeners by which every client in the network may do everything."""

from __future__ import annotations

import logging
from ipaddress import ip_address

from kwire.cluster.security.authorizer import Authorizer
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.settings.config import BrokerConfig, ListenerAddress
from kwire.server.settings.security_protocols import SecurityProtocol

logger = logging.getLogger(__name__)


def warn_of_exposure(config: BrokerConfig, authorizer: Authorizer) -> None:
    """Log a warning for each listener that other machines may reach, and that neither identifies nor limits clients."""
    if not authorizer.allows_everything:
        return
    for address in (*config.listeners, *config.controller_listeners):
        if config.security_protocols[address.name] is SecurityProtocol.PLAINTEXT and not _is_loopback(address):
            logger.warning(
                "listener %s on %s has neither encryption nor access control: everyone who reaches it may read, change "
                "and delete everything. Bind it to 127.0.0.1, or see docs/security.md",
                address.name,
                shown_address(address.host or "all addresses", address.port),
            )


def _is_loopback(address: ListenerAddress) -> bool:
    try:
        return ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"
