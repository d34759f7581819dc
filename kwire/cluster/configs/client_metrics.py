"""Configuration keys of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from kwire.cluster.configs.checks import ANY_ITEMS
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, table

CLIENT_METRICS_KEYS = table(
    (
        ConfigKey(
            name="metrics",
            type=ConfigType.LIST,
            default="",
            check=ANY_ITEMS,
            doc="Prefixes of the requested metrics; * requests all metrics, an empty list none.",
        ),
        ConfigKey(
            name="interval.ms",
            type=ConfigType.INT,
            default="300000",
            doc="Interval in milliseconds at which clients push their metrics.",
        ),
        ConfigKey(
            name="match",
            type=ConfigType.LIST,
            default="",
            check=ANY_ITEMS,
            doc="Conditions that select clients, such as client_id=regular expression; all of them must match.",
        ),
    )
)
