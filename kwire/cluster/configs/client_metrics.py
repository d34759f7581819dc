"""Configuration keys of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from kwire.cluster.config_keys import ConfigKey, ConfigType, table
from kwire.cluster.configs.checks import ANY_ITEMS

CLIENT_METRICS_KEYS = table(
    (
        ConfigKey(
            name="metrics",
            type=ConfigType.LIST,
            default="",
            check=ANY_ITEMS,
            doc="Prefixes of the metrics that are asked for; * asks for all, an empty list for none.",
        ),
        ConfigKey(
            name="interval.ms",
            type=ConfigType.INT,
            default="300000",
            doc="How often clients push their metrics.",
        ),
        ConfigKey(
            name="match",
            type=ConfigType.LIST,
            default="",
            check=ANY_ITEMS,
            doc="Which clients are meant: conditions such as client_id=regular expression, all of which must hold.",
        ),
    )
)
