"""Validators of configuration values, with Apache Kafka's messages."""

from __future__ import annotations

import re
from typing import Any

from kwire.cluster.configs.config_keys import Check, ConfigError, render


def at_least(low: int) -> Check:
    """Return a check for numbers from `low` on. NaN in a double passes, as in Kafka."""

    def accept(name: str, value: Any) -> None:
        if value < low:
            raise ConfigError(name, render(value), f"Value must be at least {low}")

    return Check(f"at least {low}", accept)


def between(low: float, high: float) -> Check:
    """Return a check for numbers from `low` to `high`."""

    def accept(name: str, value: Any) -> None:
        if value < low:
            raise ConfigError(name, render(value), f"Value must be at least {low}")
        if value > high:
            raise ConfigError(name, render(value), f"Value must be no more than {high}")

    return Check(f"{low} to {high}", accept)


def one_of(*allowed: str) -> Check:
    """Return a check for one of these words."""

    def accept(name: str, value: str) -> None:
        if value not in allowed:
            raise ConfigError(name, value, f"String must be one of: {', '.join(allowed)}")

    return Check(", ".join(allowed), accept)


def one_of_any_case(*allowed: str) -> Check:
    """Return a check for one of these words, in any case."""

    def accept(name: str, value: str) -> None:
        if value.upper() not in allowed:
            raise ConfigError(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return Check(f"{', '.join(allowed)}, in any case", accept)


def items(*allowed: str, may_be_empty: bool = True) -> Check:
    """Return a check for lists of these words, or of any words without arguments; an entry must not be empty."""

    def accept(name: str, value: list[str]) -> None:
        if not value and not may_be_empty:
            choice = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            raise ConfigError.saying(name, f"Configuration '{name}' must not be empty. Valid values include: {choice}")
        for item in value:
            if allowed and item not in allowed:
                raise ConfigError(name, item, f"String must be one of: {', '.join(allowed)}")
            if not item:
                raise ConfigError.saying(name, f"Configuration '{name}' values must not be empty.")

    return Check((f"of {', '.join(allowed)}" if allowed else "") + ("" if may_be_empty else " not empty"), accept)


def _not_empty(name: str, value: str) -> None:
    if not value:
        raise ConfigError(name, value, "String must be non-empty")


def _gzip_level(name: str, value: int) -> None:
    if value != -1 and not 1 <= value <= 9:
        raise ConfigError(name, value, "Value must be between 1 and 9 or equal to -1")


def _throttled_replicas(name: str, value: list[str]) -> None:
    if value == ["*"]:
        return
    for item in value:
        if not re.fullmatch(r"[0-9]+:[0-9]+", item):
            raise ConfigError(
                name,
                f"[{', '.join(value)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )


_DURATION = re.compile(r"(?ai)[+]?P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d{0,9})?S)?)?")
_DIGITS_MAX = 19
_UNITS = (86_400, 3_600, 60, 1)


def _is_duration(text: str) -> bool:
    """Return True for an ISO 8601 duration whose seconds fit into 64 bits, as in Java's Duration."""
    match = _DURATION.fullmatch(text)
    parts = [] if match is None else [part or "0" for part in match.groups()]
    if match is None or any(len(part) > _DIGITS_MAX for part in parts):
        return False
    return sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=True)) < 1 << 63


def _offset_reset(name: str, value: str) -> None:
    kind, separator, duration = value.partition(":")
    if value in {"earliest", "latest"} or (separator and kind == "by_duration" and _is_duration(duration)):
        return
    raise ConfigError(
        name,
        value,
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'.",
    )


def _voters(name: str, value: list[str]) -> None:
    for item in value:
        number, at, address = item.partition("@")
        if not at or not re.fullmatch(r"[+-]?[0-9]+", number):
            raise ConfigError.saying(
                name,
                f"Invalid configuration value for {name}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`.",
            )
        if not re.fullmatch(_ADDRESS, address):
            raise ConfigError.saying(
                name,
                f"Failed to parse host name from entry {item} for the configuration {name}. "
                "Each entry should be in the form `{id}@{host}:{port}`.",
            )


def _addresses(name: str, value: list[str]) -> None:
    for item in value:
        if not re.fullmatch(_ADDRESS, item):
            raise ConfigError.saying(
                name,
                f"Failed to parse host name from {item} for the configuration {name}. "
                'Each entry should be in the form "{host}:{port}"',
            )


_ADDRESS = r"(\[[0-9A-Fa-f:.%a-z]+\]|[0-9a-zA-Z\-._]+):[0-9]+"

NOT_EMPTY = Check("not empty", _not_empty)
ANY_ITEMS = items()
SOME_ITEMS = items(may_be_empty=False)
GZIP_LEVEL = Check("1 to 9, or -1", _gzip_level)
THROTTLED_REPLICAS = Check("*, or partition:broker pairs", _throttled_replicas)
OFFSET_RESET = Check("latest, earliest, or by_duration:PnDTnHnMn.nS", _offset_reset)
VOTERS = Check("id@host:port entries", _voters)
ADDRESSES = Check("host:port entries", _addresses)
CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
POLICIES = items("compact", "delete")
COUNT = at_least(0)
POSITIVE = at_least(1)
