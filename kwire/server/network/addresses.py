"""Machines as settings and quotas name them, and the addresses that their connections show."""

from __future__ import annotations

import socket


def address_of(host: str) -> str:
    """The address behind a name, IPv4 first as in Kafka. A name that has none stands for itself and fits nobody."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, ValueError):  # of the latter kind: what is no name at all
        return host
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])
