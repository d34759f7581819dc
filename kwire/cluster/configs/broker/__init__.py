"""Configuration keys of a broker."""

from __future__ import annotations

import re
from typing import Any

from kwire.cluster.configs.broker import (
    authorizer,
    general,
    groups,
    logs,
    metrics,
    modern_groups,
    network,
    quorum,
    remote_storage,
    replication,
    sasl,
    share,
    ssl,
    transactions,
)
from kwire.cluster.configs.checks import COUNT
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Update, parse, table

THEMES = {
    "General": general.KEYS,
    "Listeners and connections": network.KEYS,
    "Logs": logs.KEYS,
    "Replication": replication.KEYS,
    "Controller quorum and metadata log": quorum.KEYS,
    "Groups and offsets": groups.KEYS,
    "Transactions and producers": transactions.KEYS,
    "Consumer, share and streams groups": modern_groups.KEYS,
    "Share groups": share.KEYS,
    "Metrics and quota windows": metrics.KEYS,
    "TLS and authorization": ssl.KEYS,
    "SASL": sasl.KEYS,
    "Remote storage": remote_storage.KEYS,
}

BROKER_KEYS = table(*THEMES.values())
AUTHORIZER_KEYS = table(authorizer.KEYS)
"""Keys of the standard authorizer. As in Kafka, they are not keys of a broker: it describes them like unknown ones."""


_LISTENER_PREFIX = r"listener\.name\.[^.]*\.(?:gssapi\.|plain\.|scram-sha-256\.|scram-sha-512\.|oauthbearer\.)?"


def base_name(name: str) -> str:
    """Return the key without the prefix of a listener or of one of its SASL mechanisms."""
    return re.sub(_LISTENER_PREFIX, "", name, count=1) if name.startswith("listener.name.") else name


def default_settings() -> dict[str, Any]:
    """Return the typed defaults of all keys that a broker reads at start."""
    return {key.name: parse(key, key.default) for key in (*BROKER_KEYS.values(), *AUTHORIZER_KEYS.values())}


def _rate(name: str, doc: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default="9223372036854775807",
        check=COUNT,
        update=Update.CLUSTER_WIDE,
        doc=doc,
    )


DYNAMIC_ONLY_KEYS = table(
    (
        _rate(
            "leader.replication.throttled.rate", "Maximum bytes per second that a leader sends of throttled replicas."
        ),
        _rate(
            "follower.replication.throttled.rate",
            "Maximum bytes per second that a follower fetches of throttled replicas.",
        ),
        _rate(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "Maximum bytes per second of moves between log directories.",
        ),
    )
)
"""Keys that can only be set dynamically, not in server.properties."""
