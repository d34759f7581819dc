"""Definition of a configuration key: its type, default, check, and its use in kwire.

The tables of keys are in kwire.cluster.configs. Values are sent and stored as text, as in Kafka's records. `parse`
returns the typed value or raises ConfigError with Kafka's wording; `render` returns the text that Kafka shows for a
value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class ConfigError(ValueError):
    """A configuration value cannot be used; the message names the key."""

    def __init__(self, name: str, value: object, why: str = "") -> None:
        super().__init__(f"Invalid value {value} for configuration {name}" + (f": {why}" if why else ""))
        self.name = name

    @classmethod
    def saying(cls, name: str, message: str) -> ConfigError:
        """Return an error whose message does not have the usual form."""
        error = cls(name, "")
        error.args = (message,)
        return error


class ConfigType(IntEnum):
    """Types of values, with their numbers in DescribeConfigs."""

    UNKNOWN = 0
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
    """Sources of values, with their numbers in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigResourceType(IntEnum):
    """Types of resources that have configurations."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Use(Enum):
    """Use of a key in kwire."""

    HONOURED = "honoured"
    IGNORED = "accepted and ignored"
    """Accepted and checked, no effect: kwire does not have or need the feature, and ignoring the key is harmless."""
    REJECTED = "rejected"
    """Rejected: it would promise something that kwire does not do. Any value but the default stops the start."""


class Update(Enum):
    """Update mode of a broker key, in Kafka's words."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Check:
    """Validator: `accept` raises ConfigError, `text` describes the accepted values."""

    text: str
    accept: Callable[[str, Any], None]


@dataclass(slots=True, kw_only=True, eq=False)
class ConfigKey:
    """Definition of one key; not changed after the tables are built.

    `synonyms` are the broker keys that give a topic or group key its default, the first one that is set wins.
    `kafka_default` is Kafka's default where kwire's differs.
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    check: Check | None = None
    use: Use = Use.HONOURED
    update: Update = Update.READ_ONLY
    synonyms: tuple[str, ...] = ()
    internal: bool = False
    """True for a key that is of no interest to users: it is described only if it is set."""
    kafka_default: str | None = None
    names_plug_in: bool = False
    """True for a class whose other values name entry points, which are looked up at start."""
    built_in: tuple[str, ...] = ()
    """Names of Kafka's own classes, accepted because kwire itself does what they do."""
    is_own: bool = False
    """True for a key of kwire's that Apache Kafka does not have: it is described only if it is set."""

    @property
    def dynamic(self) -> bool:
        return self.update is not Update.READ_ONLY

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_DOUBLE = r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?"
_PLAIN_DOUBLE = frozenset("0123456789.")
"""Characters of a plain number, parsed without a pattern: compiling one at import would slow the start down."""


def parse(key: ConfigKey, text: str | None) -> Any:
    """Return the typed value of `text`; None stays None. Raises ConfigError."""
    if text is None:
        return None
    value = _convert(key, text, text.strip())
    if key.check is not None:
        key.check.accept(key.name, value)
    return list(dict.fromkeys(value)) if key.type is ConfigType.LIST else value


def _convert(key: ConfigKey, raw: str, text: str) -> Any:
    kind = key.type
    if kind in _INTEGER_BITS:
        return _integer(key, raw, text)
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in {"true", "false"}:
            raise ConfigError(key.name, raw, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind is ConfigType.DOUBLE:
        is_plain = _PLAIN_DOUBLE.issuperset(text) and text.strip(".") and text.count(".") <= 1
        if not is_plain and not re.fullmatch(_DOUBLE, text):
            raise ConfigError(key.name, raw, "Not a number of type DOUBLE")
        return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)
    if kind is ConfigType.LIST:
        return [item.strip() for item in text.split(",")] if text else []
    if kind is ConfigType.CLASS and not _is_known_class(key, text):
        raise ConfigError(key.name, raw, f"Class {text} could not be found.")
    return text


def _is_known_class(key: ConfigKey, text: str) -> bool:
    return key.names_plug_in or text in (key.default, key.kafka_default) or text in key.built_in


def _integer(key: ConfigKey, raw: str, text: str) -> int:
    edge = 1 << _INTEGER_BITS[key.type] - 1
    if text[text[:1] in ("+", "-") :].isdecimal() and len(text) < 100:
        value = int(text)
        if -edge <= value < edge:
            return value
    raise ConfigError(key.name, raw, f"Not a number of type {key.type.name}")


def render(value: Any) -> str | None:
    """Return a parsed value as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return _double_text(value)
    return str(value)


def _double_text(value: float) -> str:
    """Return a double as Java prints it."""
    if value != value:  # noqa: PLR0124 only NaN differs from itself
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value:.1f}" if value == int(value) else repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        mantissa, _, exponent = f"{value:.16e}".partition("e")
        digits = mantissa.rstrip("0")
    if digits.endswith("."):
        digits += "0"
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def broker_id_of(name: str) -> int | None:
    """Return the broker id in a broker resource's name, read as Java reads an int; None if it is not an id.

    01 and +1 mean broker 1, but configurations are stored by name: a configuration of 01 has no effect on broker 1.
    """
    found = re.fullmatch(r"([+-]?)0*([0-9]{1,10})", name)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None


def table(*groups: Iterable[ConfigKey]) -> Mapping[str, ConfigKey]:
    """Return keys by name."""
    return {key.name: key for group in groups for key in group}
