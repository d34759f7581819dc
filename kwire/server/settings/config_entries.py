"""Described configurations of a resource: value, source, synonyms.

A value is looked up in this order: the resource's own configuration, this broker's dynamic configuration, the dynamic
default of all brokers, server.properties, the default. Each place that has a value is a synonym. As in Apache Kafka,
the list of synonyms begins with the first one of the key's own (or first synonym's) name. Therefore a topic's
segment.ms from log.roll.hours is shown as a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kwire.cluster.configs.broker import BROKER_KEYS, base_name
from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import ConfigKey, ConfigSource, ConfigType, parse, render
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.cluster.configs.topic_configs import topic_value
from kwire.server.settings.config import BrokerConfig
from kwire.server.settings.dynamic_configs import DynamicConfigs, dynamic_key

Synonym = tuple[str, str | None, ConfigSource]
Values = Mapping[str, str]

_ALIKE = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
SYNONYMS: Mapping[str, tuple[str, ...]] = {name: names for names in _ALIKE for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
"""Broker keys with the same meaning; the first has precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """Configuration with its current value."""

    name: str
    type: ConfigType
    doc: str | None
    value: str | None
    synonyms: tuple[Synonym, ...]
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


class ConfigEntries:
    """Descriptions of resources by one broker's configuration."""

    def __init__(self, config: BrokerConfig, settings: CurrentSettings, dynamic: DynamicConfigs) -> None:
        self._config = config
        self._settings = settings
        self._dynamic = dynamic

    def of_topic(self, overrides: Values) -> list[ConfigEntry]:
        """Return all configurations of a topic with these overrides."""
        return [
            self._topic_entry(key, overrides)
            for key in TOPIC_KEYS.values()
            if not key.internal or key.name in overrides
        ]

    def of_group(self, overrides: Values) -> list[ConfigEntry]:
        """Return all configurations of a group with these overrides."""
        return [self._group_entry(key, overrides) for key in GROUP_KEYS.values()]

    def of_client_metrics(self, values: Values) -> list[ConfigEntry]:
        """Return all configurations of a client metrics subscription."""
        return [self._client_metrics_entry(key, values) for key in CLIENT_METRICS_KEYS.values()]

    def of_broker(self) -> list[ConfigEntry]:
        """Return all configurations of this broker, including unknown settings that were given."""
        given = self._config.values.keys() | self._dynamic.defaults.keys() | self._dynamic.own.keys()
        known = [key for key in BROKER_KEYS.values() if not (key.internal or key.is_own) or key.name in given]
        entries = [self._broker_entry(key) for key in known]
        return entries + [self._given_entry(name) for name in sorted(given - BROKER_KEYS.keys())]

    def of_broker_defaults(self) -> list[ConfigEntry]:
        """Return the dynamic defaults of all brokers, which have no further defaults."""
        return [self._default_entry(name, text) for name, text in self._dynamic.defaults.items()]

    # --- one entry

    def _topic_entry(self, key: ConfigKey, overrides: Values) -> ConfigEntry:
        value = self._topic_text(key, overrides)
        synonyms = self._synonyms(key.synonyms)
        if key.name in overrides:
            synonyms = ((key.name, value, ConfigSource.DYNAMIC_TOPIC), *synonyms)
        return _entry(key, value, synonyms)

    def _topic_text(self, key: ConfigKey, overrides: Values) -> str | None:
        """Return the value as text; an internal key is shown as it was written, with its spaces and signs."""
        return overrides[key.name] if key.internal else render(topic_value(key.name, overrides, self._settings.values))

    def _group_entry(self, key: ConfigKey, overrides: Values) -> ConfigEntry:
        further = self._synonyms(key.synonyms) if key.synonyms else ((key.name, key.default, ConfigSource.DEFAULT),)
        if key.name in overrides:
            own = render(parse(key, overrides[key.name]))
            return _entry(key, own, ((key.name, own, ConfigSource.GROUP), *further))
        return _entry(key, render(self._settings.values[key.synonyms[0]]) if key.synonyms else key.default, further)

    def _client_metrics_entry(self, key: ConfigKey, values: Values) -> ConfigEntry:
        if key.name not in values:
            return _entry(key, key.default, ())
        own = render(parse(key, values[key.name]))
        return _entry(key, own, ((key.name, own, ConfigSource.CLIENT_METRICS),))

    def _broker_entry(self, key: ConfigKey) -> ConfigEntry:
        names = SYNONYMS.get(key.name, (key.name,))
        synonyms = self._synonyms(names, first=key.name, hidden=key.sensitive)
        value = None if key.sensitive else render(self._settings.values[key.name])
        return _entry(key, value, synonyms, read_only=not key.dynamic)

    def _given_entry(self, name: str) -> ConfigEntry:
        """Return a setting of one listener, or an unknown one, which might be a secret."""
        key = dynamic_key(name)
        hidden = key is None or key.sensitive
        names = (name,) if base_name(name) == name else (name, base_name(name))
        synonyms = self._synonyms(names, hidden=hidden)
        return ConfigEntry(
            name=name,
            type=key.type if key is not None else ConfigType.UNKNOWN,
            doc=key.doc if key is not None else None,
            value=None if hidden else synonyms[0][1],
            synonyms=synonyms,
            source=synonyms[0][2],
            read_only=base_name(name) != name or key is None or not key.dynamic,
            sensitive=hidden,
        )

    def _default_entry(self, name: str, text: str) -> ConfigEntry:
        key = dynamic_key(name)
        hidden = key is None or key.sensitive
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        value = None if hidden else text
        return ConfigEntry(
            name=name,
            type=key.type if key is not None else ConfigType.UNKNOWN,
            doc=key.doc if key is not None else None,
            value=value,
            synonyms=((name, value, source),),
            source=source,
            read_only=base_name(name) != name or key is None or not key.dynamic,
            sensitive=hidden,
        )

    def _synonyms(self, names: Iterable[str], *, first: str | None = None, hidden: bool = False) -> tuple[Synonym, ...]:
        """Return every place with a value for one of the names, from the first of `first` (or names[0]) on."""
        names = tuple(names)
        layers: tuple[tuple[Mapping[str, Any], ConfigSource], ...] = (
            (self._dynamic.own, ConfigSource.DYNAMIC_BROKER),
            (self._dynamic.defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._config.values, ConfigSource.STATIC_BROKER),
        )
        found: list[Synonym] = [
            (name, values[name], source) for values, source in layers for name in names if name in values
        ]
        found += [(name, text, ConfigSource.DEFAULT) for name in names if (text := _default(name)) is not None]
        start = next((position for position, each in enumerate(found) if each[0] == (first or names[0])), len(found))
        return tuple((name, None if hidden else text, source) for name, text, source in found[start:])


def _default(name: str) -> str | None:
    key = BROKER_KEYS.get(name)
    if key is None or (key.kafka_default is None and name in _WITHOUT_DEFAULT):
        return None
    return render(parse(key, key.default))


_WITHOUT_DEFAULT = frozenset({"node.id", "process.roles", "controller.listener.names"})
"""Keys for which Kafka has no default."""


def _entry(
    key: ConfigKey,
    value: str | None,
    synonyms: tuple[Synonym, ...],
    *,
    read_only: bool = False,
) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        type=key.type,
        doc=key.doc,
        value=value,
        synonyms=synonyms,
        source=synonyms[0][2] if synonyms else ConfigSource.DEFAULT,
        read_only=read_only,
        sensitive=key.sensitive,
    )
