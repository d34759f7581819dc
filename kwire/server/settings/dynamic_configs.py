"""Dynamic configuration of a broker: settings that are altered while it runs (KIP-226).

A value is looked up in this order: this broker's dynamic configuration, the dynamic default of all brokers,
server.properties, the default. Both dynamic layers are metadata records. A value that cannot be used is left out with
one log line, since another version may have written it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kwire.cluster.configs.broker import BROKER_KEYS, DYNAMIC_ONLY_KEYS, base_name
from kwire.cluster.configs.config_keys import ConfigError, ConfigKey, ConfigResourceType, parse
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.server.settings.local_settings import is_as_in_file, is_local
from kwire.server.settings.setting_rules import RuleBrokenError, check_rules, connection_overrides

logger = logging.getLogger(__name__)

Values = Mapping[str, str]
NOTHING: Final[Values] = {}
Validator = Callable[[Values, Mapping[str, Any]], Awaitable[None]]
"""Check of a part that needs more than the settings, such as files. Receives texts and typed values of a broker's
dynamic configuration, see values_of_listener; raises SettingError."""
_Taken = tuple[Values, Values, Mapping[str, Any]]

NEVER_ALTERED_TO_NOTHING: Final = ("max.connections", "max.connection.creation.rate")
"""Settings that a file may set to 0, but a change may not: no client could connect to undo it."""


class DynamicConfigs:
    """Settings of a node, kept equal to the committed metadata.

    Committed values may be invalid: a controller accepts some changes without the broker's checks. A value that cannot
    be used is left out. As in Apache Kafka, inconsistent values change nothing.
    """

    def __init__(self, node_id: int, settings: CurrentSettings, file_texts: Values = NOTHING) -> None:
        """`file_texts` are the settings of the properties file."""
        self.defaults: Values = {}
        """Usable part of the dynamic default of all brokers."""
        self.own: Values = {}
        """Usable part of this broker's dynamic configuration."""
        self.validators: list[Validator] = []
        """Checks of changes of this broker's configuration, besides those of `dynamic_checks`."""
        self._node_id = node_id
        self._settings = settings
        self._file_texts = file_texts
        self._static = dict(settings.at_start)
        self._taken: deque[_Taken] = deque([(NOTHING, NOTHING, self._static)], maxlen=2)
        """Applied layers with the resulting settings: those before the last change, and those after."""
        self._logged: set[str] = set()
        """Logged messages about values that are left out now; they are not repeated at each change."""
        self._logged_before: set[str] = set()

    def start(self, image: MetadataImage) -> None:
        """Apply the committed image, once, at start."""
        self._take(image)

    def text_of(self, name: str) -> str | None:
        """Return the dynamic value of a setting, of this broker or else of all brokers; None without one."""
        return self.own.get(name) or self.defaults.get(name)

    @property
    def texts(self) -> Values:
        """Dynamic values by name, also those of single listeners; those of this broker come first."""
        return {**self.defaults, **self.own}

    def sets_own(self, delta: MetadataDelta) -> bool:
        """Return True if a record has set this broker's configuration, also to the values that it has.

        The setting may be the name of a file whose content is new.
        """
        return delta.has_config_changes and self._raw(delta.before)[1] is not self._raw(delta.after)[1]

    def apply(self, delta: MetadataDelta) -> bool:
        """Apply a committed change; return True if settings may have changed."""
        if not delta.has_config_changes or self._raw(delta.before) == self._raw(delta.after):
            return False
        self._take(delta.after)
        return True

    def settings_of(self, image: MetadataImage) -> Mapping[str, Any]:
        """Return all settings with typed values under an image: the committed one, or the one before it."""
        defaults, own = self._raw(image)
        for known in reversed(self._taken):
            if known[0] is defaults and known[1] is own:
                return known[2]
        return self._checked(self._usable(defaults), self._usable(own))

    def _take(self, image: MetadataImage) -> None:
        self._logged_before, self._logged = self._logged, set()
        raw = self._raw(image)
        self.defaults, self.own = (self._usable(layer) for layer in raw)
        settings = self._checked(self.defaults, self.own)
        self._taken.append((*raw, settings))
        self._settings.replace(settings)

    def _raw(self, image: MetadataImage) -> tuple[Values, Values]:
        kind, configs = ConfigResourceType.BROKER, image.configs
        return configs.get((kind, ""), NOTHING), configs.get((kind, str(self._node_id)), NOTHING)

    def _checked(self, defaults: Values, own: Values) -> Mapping[str, Any]:
        settings = self._static | {
            name: parse(BROKER_KEYS[name], text) for name, text in {**defaults, **own}.items() if name in BROKER_KEYS
        }
        try:
            check_rules(settings)
        except RuleBrokenError as error:
            self._log_once(f"the dynamic configuration could not be applied: {error}")
            return self._taken[-1][2]
        return settings

    def _usable(self, values: Values) -> Values:
        usable = {}
        for name, text in values.items():
            if is_local(name) and is_as_in_file(name, text, self._file_texts):
                continue  # it was set again, because the content of a file is new
            try:
                _check(name, text)
            except (ConfigError, RuleBrokenError) as error:
                self._log_once(f"the dynamic configuration {name} is ignored: {error}")
            else:
                usable[name] = text
        return usable

    def _log_once(self, message: str) -> None:
        if message not in self._logged and message not in self._logged_before:
            logger.error("%s", message)
        self._logged.add(message)


def dynamic_key(name: str) -> ConfigKey | None:
    """Return the key of a dynamic setting's name; None for names that Kafka passes to plug-ins."""
    base = base_name(name)
    return BROKER_KEYS.get(base) or DYNAMIC_ONLY_KEYS.get(base)


def _check(name: str, text: str) -> None:
    """Raise ConfigError or RuleBrokenError for a value that no broker could use."""
    key = dynamic_key(name)
    if key is None:
        return
    value = parse(key, text)
    if not key.dynamic or is_local(name):
        raise RuleBrokenError("it cannot change while a broker runs")
    if key.name == "max.connections.per.ip.overrides":
        connection_overrides(text)
    if key.name in NEVER_ALTERED_TO_NOTHING and value <= 0:
        raise ConfigError(key.name, text)
