"""Validation of group configurations and of client metrics subscriptions, as Apache Kafka does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.settings import SettingsT, read_settings
from kwire.cluster.patterns import PATTERN_MAX, STATES_MAX, Pattern, PatternRejectedError
from kwire.protocol.error_codes import ErrorCode, KafkaError

_LEAST, _MOST = "min", "max"
BOUNDS: Mapping[str, tuple[str, ...]] = {
    "consumer.heartbeat.interval.ms": (_LEAST, _MOST),
    "consumer.session.timeout.ms": (_LEAST, _MOST),
    "consumer.assignment.interval.ms": (_LEAST, _MOST),
    "share.heartbeat.interval.ms": (_LEAST, _MOST),
    "share.session.timeout.ms": (_LEAST, _MOST),
    "share.record.lock.duration.ms": (_LEAST, _MOST),
    "share.delivery.count.limit": (_LEAST, _MOST),
    "share.partition.max.record.locks": (_LEAST, _MOST),
    "share.assignment.interval.ms": (_LEAST, _MOST),
    "streams.heartbeat.interval.ms": (_LEAST, _MOST),
    "streams.session.timeout.ms": (_LEAST, _MOST),
    "streams.num.standby.replicas": (_MOST,),
    "streams.assignment.interval.ms": (_LEAST, _MOST),
}
"""Group keys limited by broker settings: group.consumer.min.session.timeout.ms limits consumer.session.timeout.ms."""


def check_group_configs(values: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Validate group configurations on a broker with these settings. Raises ConfigError."""
    for name in values:
        if name not in GROUP_KEYS:
            raise ConfigError.saying(name, f"Unknown group config name: {name}")
    typed = {name: parse(GROUP_KEYS[name], value) for name, value in values.items()}
    effective: dict[str, Any] = {name: typed.get(name, settings.get(f"group.{name}")) for name in GROUP_KEYS}
    for name, sides in BOUNDS.items():
        for side in sides:
            _check_bound(name, effective[name], side, settings)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if effective[session] <= effective[heartbeat]:
            raise ConfigError.saying(session, f"{session} must be greater than {heartbeat}")


def _check_bound(name: str, value: int, side: str, settings: Mapping[str, Any]) -> None:
    bound = bound_name(name, side)
    if side == _LEAST and value < settings[bound]:
        raise ConfigError.saying(name, f"{name} must be greater than or equal to {bound}")
    if side == _MOST and value > settings[bound]:
        raise ConfigError.saying(name, f"{name} must be less than or equal to {bound}")


def bound_name(name: str, side: str) -> str:
    """Return the broker setting that limits a group key from below ("min") or above ("max")."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{side}.{rest.removeprefix('num.')}"


class GroupConfigs:
    """Configurations of groups in effect: those of one group over the settings of the broker, within its bounds."""

    def __init__(
        self, overrides: Callable[[str], Mapping[str, str]], settings: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Create them; both functions return the same object until something changes.

        `overrides` returns the configurations of one group; `settings` the typed values of all broker keys.
        """
        self._overrides = overrides
        self._settings = settings
        self._defaults = _Values({}, {})
        self._groups: dict[str, _Values] = {}

    def of(self, group_id: str, kind: type[SettingsT]) -> SettingsT:
        """Return the settings of one group, as a dataclass whose fields name group keys."""
        overrides, settings = self._overrides(group_id), self._settings()
        if not overrides:
            self._groups.pop(group_id, None)
            if self._defaults.settings is not settings:
                self._defaults = _Values({}, settings)
            return self._defaults.of(kind)
        values = self._groups.get(group_id)
        if values is None or values.overrides is not overrides or values.settings is not settings:
            values = self._groups[group_id] = _Values(overrides, settings)
        return values.of(kind)


class _Values:
    """Values of all group keys for certain overrides and broker settings, with the dataclasses read from them."""

    def __init__(self, overrides: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        self.overrides = overrides
        self.settings = settings
        self._read: dict[type, Any] = {}

    def of(self, kind: type[SettingsT]) -> SettingsT:
        found: SettingsT | None = self._read.get(kind)
        if found is None:
            found = self._read[kind] = read_settings(kind, self._values())
        return found

    def _values(self) -> Mapping[str, Any]:
        defaults = {
            name: self.settings.get(f"group.{name}", parse(key, key.default)) for name, key in GROUP_KEYS.items()
        }
        return {**defaults, **_within_bounds(self.overrides, self.settings)}


def _within_bounds(overrides: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return typed overrides. A value that the broker's bounds no longer allow becomes the nearest allowed one."""
    values = {name: parse(GROUP_KEYS[name], value) for name, value in overrides.items() if name in GROUP_KEYS}
    for name in values.keys() & BOUNDS.keys():
        for side in BOUNDS[name]:
            bound = settings[bound_name(name, side)]
            values[name] = max(values[name], bound) if side == _LEAST else min(values[name], bound)
    return values


_INTERVAL_MS_LEAST, _INTERVAL_MS_MOST = 100, 3_600_000
MATCH_MAX = PATTERN_MAX
"""Maximum characters of all patterns of a subscription."""
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_client_metrics_configs(name: str, values: Mapping[str, str]) -> None:
    """Validate the configurations of a client metrics subscription. Raises KafkaError or ConfigError."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    if len(values.get("match", "")) > MATCH_MAX:
        raise ConfigError.saying("match", f"match is longer than {MATCH_MAX} characters; shorten the patterns")
    typed = {key: parse(CLIENT_METRICS_KEYS[key], value) for key, value in values.items()}
    interval = typed.get("interval.ms", _INTERVAL_MS_LEAST)
    if not _INTERVAL_MS_LEAST <= interval <= _INTERVAL_MS_MOST:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    for item in typed.get("match", ()):
        _check_condition(item)


def _check_condition(item: str) -> None:
    name, separator, pattern = item.partition("=")
    if not separator or "=" in pattern:
        raise ConfigError.saying("match", f"Illegal client matching pattern: {item}")
    if name.strip() not in _MATCHED:
        raise ConfigError.saying("match", f"Illegal client matching pattern: {item}")
    try:
        Pattern(pattern.strip())
    except PatternRejectedError:
        raise ConfigError.saying(
            "match",
            f"Illegal client matching pattern: {item} (not a regular expression, or one that kwire does not support: "
            f"with back references, looking around, flags, or more than {STATES_MAX} states)",
        ) from None
