"""The broker's settings as they are altered while it runs (KIP-226).

A value is looked for in this order: this broker's dynamic configuration, the dynamic default of all brokers,
server.properties, the default. Both dynamic layers are metadata records; what stands there and cannot be used is left
out with one log line, since it may have been written by another version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from kwire.cluster.config_keys import ConfigError, ConfigKey, ConfigResourceType, parse
from kwire.cluster.configs.broker import BROKER_KEYS, DYNAMIC_ONLY_KEYS, base_name
from kwire.cluster.image import MetadataImage
from kwire.server.settings.config import BrokerConfig

logger = logging.getLogger("kwire.server.settings.dynamic_configs")

Values = Mapping[str, str]


class DynamicConfigs:
    """Keeps a BrokerConfig's typed values in step with the committed metadata."""

    def __init__(self, config: BrokerConfig) -> None:
        self.defaults: Values = {}
        """The dynamic default of all brokers, as far as it can be used."""
        self.own: Values = {}
        """This broker's dynamic configuration, as far as it can be used."""
        self._config = config
        self._static = dict(config.static)
        self._cached: tuple[Values, Values, Mapping[str, Any]] = ({}, {}, self._static)
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called after settings have changed."""
        self._watchers.append(watcher)

    def start(self, image: MetadataImage) -> None:
        """Take over what the committed image says, once, at start."""
        self._take(*self._layers(image))

    def text_of(self, name: str) -> str | None:
        """What a setting was altered to, for this broker or else for all; None if for neither."""
        return self.own.get(name) or self.defaults.get(name)

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take over a committed change."""
        if old.configs is new.configs:
            return
        defaults, own = self._layers(new)
        if (defaults, own) != (self.defaults, self.own):
            self._take(defaults, own)

    def settings_of(self, image: MetadataImage) -> Mapping[str, Any]:
        """All settings with typed values as they are under an image."""
        defaults, own = self._raw(image)
        if self._cached[0] is not defaults or self._cached[1] is not own:
            self._cached = (defaults, own, self._settings(*self._layers(image)))
        return self._cached[2]

    def _take(self, defaults: Values, own: Values) -> None:
        self.defaults, self.own = defaults, own
        self._config.typed.update(self._settings(defaults, own))
        for watcher in self._watchers:
            watcher()

    def _raw(self, image: MetadataImage) -> tuple[Values, Values]:
        kind = ConfigResourceType.BROKER
        return image.config_of(kind, ""), image.config_of(kind, str(self._config.node_id))

    def _layers(self, image: MetadataImage) -> tuple[Values, Values]:
        defaults, own = self._raw(image)
        return _usable(defaults), _usable(own)

    def _settings(self, defaults: Values, own: Values) -> dict[str, Any]:
        return self._static | {
            name: parse(BROKER_KEYS[name], text) for name, text in {**defaults, **own}.items() if name in BROKER_KEYS
        }


def dynamic_key(name: str) -> ConfigKey | None:
    """The key that a dynamic setting's name stands for; None for names that Kafka keeps for plug-ins."""
    base = base_name(name)
    return BROKER_KEYS.get(base) or DYNAMIC_ONLY_KEYS.get(base)


def _usable(values: Values) -> Values:
    usable = {}
    for name, text in values.items():
        key = dynamic_key(name)
        try:
            if key is not None:
                parse(key, text)
                if not key.dynamic:
                    logger.error("the dynamic configuration %s is ignored: it cannot change while a broker runs", name)
                    continue
        except ConfigError as error:
            logger.error("the dynamic configuration %s is ignored: %s", name, error)  # noqa: TRY400 the error says all
            continue
        usable[name] = text
    return usable
