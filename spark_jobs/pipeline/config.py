"""Configuration of the pipeline: a TOML file, and flags that override it.

Every key has a default but those of `Config` without one. `[kafka]` has properties of the Java client, for Spark's
source; `[librdkafka]` has those of librdkafka, for the sinks and the shadow groups. Both are passed on unchanged.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from spark_jobs.pipeline.schema import Bounds

FORMATS = ("parquet", "delta", "iceberg")
QUERIES = ("raw", "cleaned", "counts", "sessions", "dead_letters")
UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
INTERVAL = re.compile(rf"(\d+) ({'|'.join(UNITS)})s?")


class ConfigError(Exception):
    """Raised if a job cannot start; the message is one line for the user."""


def seconds(interval: str, name: str) -> float:
    """Return the seconds of an interval such as "30 seconds". Raises ConfigError."""
    found = INTERVAL.fullmatch(interval)
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"{name}: {interval!r} is no interval, write for example '30 seconds' or '5 minutes'")
    return int(found[1]) * UNITS[found[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables of the pipeline."""

    path: str
    """Directory, or URL that Hadoop knows, such as s3a://bucket/tables."""
    format: str = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Event time. Intervals are written as in Spark: "30 seconds"."""

    ahead: str = "1 minute"
    """An event dated later than this after its record's timestamp is a dead letter."""
    behind: str = "10 minutes"
    """An event dated earlier than this before its record's timestamp is a dead letter."""
    watermark: str = "15 minutes"
    """Delay of the watermark, at least ahead + behind: a valid event then is late only if partitions are read with a
    larger difference than the rest.
    """
    window: str = "1 minute"
    session_gap: str = "5 minutes"

    @property
    def bounds(self) -> Bounds:
        return Bounds(seconds(self.ahead, "events.ahead"), seconds(self.behind, "events.behind"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Configuration of one pipeline. Raises ConfigError if it makes no sense."""

    bootstrap: str
    input: str
    checkpoint: str
    tables: Tables
    output: str = ""
    """Topic of the counts; by default the input with -counts."""
    dead_letters: str = ""
    """Topic of the dead letters; by default the input with -dead-letters."""
    name: str = "pipeline"
    """Name of this pipeline, which its transactional ids and shadow groups begin with."""
    queries: Sequence[str] = QUERIES
    trigger: str = "10 seconds"
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    """End a query if records were deleted that it has not read; otherwise it continues with those that are left."""
    slots: int = 4
    """Transactional producers of each topic that the pipeline writes."""
    metrics_port: int | None = None
    events: Events = field(default_factory=Events)
    kafka: Mapping[str, str] = field(default_factory=dict)
    librdkafka: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tables.format not in FORMATS:
            raise ConfigError(f"tables.format: {self.tables.format!r} is unknown, use one of {', '.join(FORMATS)}")
        unknown = [name for name in self.queries if name not in QUERIES]
        if unknown or not self.queries:
            raise ConfigError(f"queries: {', '.join(unknown) or 'none'} is unknown, use some of {', '.join(QUERIES)}")
        seconds(self.trigger, "trigger")
        bounds, events = self.events.bounds, self.events
        for name in ("window", "session_gap"):
            seconds(getattr(events, name), f"events.{name}")
        if seconds(events.watermark, "events.watermark") < bounds.ahead + bounds.behind:
            raise ConfigError(
                f"events.watermark: {events.watermark} is less than ahead + behind ({events.ahead} + {events.behind}), "
                "so that valid events would be dropped"
            )
        for name in ("output", "dead_letters"):
            if not getattr(self, name):
                object.__setattr__(self, name, f"{self.input}-{'counts' if name == 'output' else 'dead-letters'}")

    @property
    def producer(self) -> dict[str, Any]:
        """librdkafka's properties."""
        return {"bootstrap.servers": self.bootstrap, **self.librdkafka}


def read_config(path: Path | None, overrides: Mapping[str, str]) -> Config:
    """Return the configuration of a file with overrides by dotted keys. Raises ConfigError."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
    for key, value in overrides.items():
        _override(values, key, value)
    return _made(Config, values, "")


def _override(values: dict[str, Any], key: str, value: str) -> None:
    section, _, rest = key.partition(".")
    if rest and section in ("kafka", "librdkafka", "tables", "events"):
        inside = values.setdefault(section, {})
        if not isinstance(inside, dict):
            raise ConfigError(f"{section}: this is a section")
        inside[rest] = value
    else:
        values[key] = value


def _made(kind: type[Any], values: Mapping[str, Any], prefix: str) -> Any:
    known = {each.name: each for each in fields(kind)}
    for name in values:
        if name not in known:
            raise ConfigError(f"{prefix}{name}: unknown key, known are {', '.join(known)}")
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise ConfigError(f"{prefix}{name}: this key is missing")
    return kind(**{name: _value(known[name].type, value, f"{prefix}{name}") for name, value in values.items()})


def _value(kind: Any, value: Any, name: str) -> Any:
    if isinstance(kind, type) and kind in (Tables, Events):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name}: this is a section")
        return _made(kind, value, f"{name}.")
    if kind is str:
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{name}: {value!r} is no text")
        return value
    if kind is bool:
        return _truth(value, name)
    if kind is int or (isinstance(kind, UnionType) and int in get_args(kind)):
        return _positive(value, name)
    if kind == Sequence[str]:
        found = value.split(",") if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ConfigError(f"{name}: {value!r} is no list of texts")
        return found
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: this is a section")
    return dict(value)


def _truth(value: Any, name: str) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ConfigError(f"{name}: {value!r} is neither true nor false")
    return found


def _positive(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if isinstance(value, bool | float) or number < 1:
        raise ConfigError(f"{name}: {value!r} is no positive number")
    return number
