"""The configurations of a topic or broker as they are described: value, source, synonyms.

A value is looked for in this order, and each place that has one is a synonym: the topic's own, this broker's dynamic
configuration, the cluster-wide dynamic default of brokers, server.properties, Kafka's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kwire.cluster.config_keys import ConfigKey, ConfigSource
from kwire.cluster.topic_configs import TOPIC_KEYS, topic_default
from kwire.server.broker_configs import BROKER_KEYS
from kwire.server.config import BrokerConfig

Synonym = tuple[str, str | None, ConfigSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration as it stands."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    read_only: bool = False


def topic_entries(
    overrides: Mapping[str, str],
    config: BrokerConfig,
    cluster_defaults: Mapping[str, str],
    broker_overrides: Mapping[str, str] | None = None,
) -> list[ConfigEntry]:
    """All configurations of a topic with these overrides."""
    layers = _broker_layers(config, cluster_defaults, broker_overrides or {})
    return [_topic_entry(key, overrides, layers) for key in TOPIC_KEYS.values()]


def broker_entries(
    config: BrokerConfig, cluster_defaults: Mapping[str, str], broker_overrides: Mapping[str, str]
) -> list[ConfigEntry]:
    """All configurations of a broker."""
    layers = _broker_layers(config, cluster_defaults, broker_overrides)
    return [_broker_entry(key, layers) for key in BROKER_KEYS.values()]


def dynamic_entries(values: Mapping[str, str]) -> list[ConfigEntry]:
    """The cluster-wide dynamic defaults of brokers, which have no further defaults."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        ConfigEntry(key=BROKER_KEYS[name], value=value, source=source, synonyms=((name, value, source),))
        for name, value in values.items()
        if name in BROKER_KEYS
    ]


Layers = tuple[tuple[Mapping[str, str], ConfigSource], ...]


def _broker_layers(
    config: BrokerConfig, cluster_defaults: Mapping[str, str], broker_overrides: Mapping[str, str]
) -> Layers:
    return (
        (broker_overrides, ConfigSource.DYNAMIC_BROKER),
        (cluster_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.values, ConfigSource.STATIC_BROKER),
    )


def _given(name: str, layers: Layers) -> Iterator[Synonym]:
    for values, source in layers:
        if name in values:
            yield name, values[name], source


def _topic_entry(key: ConfigKey, overrides: Mapping[str, str], layers: Layers) -> ConfigEntry:
    synonyms: list[Synonym] = []
    if key.name in overrides:
        synonyms.append((key.name, overrides[key.name], ConfigSource.DYNAMIC_TOPIC))
    for name, _ in key.synonyms:
        synonyms += _given(name, layers)
    value, source = (synonyms[0][1], synonyms[0][2]) if synonyms else (key.default, ConfigSource.DEFAULT)
    if synonyms and key.name not in overrides:
        given = topic_default(key, {name: text for name, text, _ in reversed(synonyms) if text is not None})
        value = given[0] if given else value
    for name, _ in key.synonyms:
        default = BROKER_KEYS[name].default
        if default is not None:
            synonyms.append((name, default, ConfigSource.DEFAULT))
    return ConfigEntry(key=key, value=value, source=source, synonyms=tuple(synonyms))


def _broker_entry(key: ConfigKey, layers: Layers) -> ConfigEntry:
    synonyms = list(_given(key.name, layers))
    value, source = (synonyms[0][1], synonyms[0][2]) if synonyms else (key.default, ConfigSource.DEFAULT)
    if key.default is not None:
        synonyms.append((key.name, key.default, ConfigSource.DEFAULT))
    return ConfigEntry(
        key=key,
        value=None if key.sensitive else value,
        source=source,
        synonyms=tuple(synonyms),
        read_only=not key.dynamic,
    )
