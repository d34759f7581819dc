"""What a configuration key is: its type, default, check and place in the chain of synonyms.

The tables of keys are in topic_configs (here) and in kwire.server.broker_configs. Values travel and are stored as text,
as in Kafka's records; `parse` gives the typed value or raises ConfigError with Kafka's wording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

INT64_MAX = 2**63 - 1


class ConfigError(ValueError):
    """A configuration value that cannot be used; the message names the key."""

    def __init__(self, name: str, value: object, why: str = "") -> None:
        super().__init__(f"Invalid value {value} for configuration {name}" + (f": {why}" if why else ""))
        self.name = name


class ConfigType(IntEnum):
    """Types of values, numbered as DescribeConfigs sends them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value came from, numbered as DescribeConfigs sends it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigResourceType(IntEnum):
    """What a set of configurations belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Check = Callable[[Any], str]
"""Given a parsed value, what is wrong with it, or the empty string."""


def at_least(low: float) -> Check:
    return lambda value: "" if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Check:
    def check(value: Any) -> str:
        if value < low:
            return f"Value must be at least {low}"
        return "" if value <= high else f"Value must be no more than {high}"

    return check


def one_of(*allowed: str) -> Check:
    return lambda value: "" if value in allowed else f"String must be one of: {', '.join(allowed)}"


def items_of(*allowed: str) -> Check:
    def check(value: list[str]) -> str:
        for item in value:
            if item not in allowed:
                return f"String must be one of: {', '.join(allowed)}"
        return "" if len(set(value)) == len(value) else "duplicate values"

    return check


def anything(_: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key: how to read its value and what to say of it.

    `synonyms` are the broker keys that give a topic key its default, first wins, each with the factor that turns its
    unit into this key's (log.retention.hours counts 3,600,000 ms).
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    check: Check = anything
    synonyms: tuple[tuple[str, int], ...] = ()
    dynamic: bool = False
    sensitive: bool = False


_INTEGER_RANGES = {
    ConfigType.SHORT: (16, "SHORT"),
    ConfigType.INT: (32, "INT"),
    ConfigType.LONG: (64, "LONG"),
}


def parse(key: ConfigKey, text: str | None) -> Any:
    """The typed value of `text`; None stays None. Raises ConfigError."""
    if text is None:
        return None
    value = _convert(key, text.strip())
    why = key.check(value)
    if why:
        raise ConfigError(key.name, text, why)
    return value


def _convert(key: ConfigKey, text: str) -> Any:
    kind = key.type
    if kind in _INTEGER_RANGES:
        return _integer(key, text)
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in {"true", "false"}:
            raise ConfigError(key.name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(key.name, text, "Not a number of type DOUBLE") from None
    if kind is ConfigType.LIST:
        return [item.strip() for item in text.split(",")] if text else []
    return text


def _integer(key: ConfigKey, text: str) -> int:
    bits, name = _INTEGER_RANGES[key.type]
    try:
        value = int(text, 10)
    except ValueError:
        raise ConfigError(key.name, text, f"Not a number of type {name}") from None
    if "_" in text or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ConfigError(key.name, text, f"Not a number of type {name}")
    return value


def table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    """Keys by name."""
    return {key.name: key for key in keys}
