"""Settings of components: each field has a key that kwire honours, and the key's type."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.configs.broker import AUTHORIZER_KEYS, BROKER_KEYS, default_settings
from kwire.cluster.configs.config_keys import ConfigKey, ConfigType, Use
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.settings import KEY, CurrentSettings, read_settings, setting

ROOT = Path(__file__).parents[2]
TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.DOUBLE: float,
    ConfigType.INT: int,
    ConfigType.LONG: int,
    ConfigType.SHORT: int,
    ConfigType.LIST: list[str],
    ConfigType.STRING: str,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}


def kinds() -> list[Any]:
    """Return all settings classes of kwire."""
    found: list[Any] = []
    for path in sorted((ROOT / "kwire").rglob("*.py")):
        if " = setting(" not in path.read_text():
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        found += [
            each
            for _, each in inspect.getmembers(module, inspect.isclass)
            if each.__module__ == module.__name__ and dataclasses.is_dataclass(each)
        ]
    return [each for each in found if any(KEY in field.metadata for field in dataclasses.fields(each))]


def expected(key: ConfigKey) -> Any:
    """Return the annotation of a field that has this key."""
    kind = TYPES[key.type]
    return kind | None if key.default is None else kind


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_each_field_has_the_type_of_its_key(kind: Any) -> None:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if KEY in field.metadata:
            name = field.metadata[KEY]
            key = {**GROUP_KEYS, **AUTHORIZER_KEYS, **BROKER_KEYS}[name]
            assert key.use is Use.HONOURED, key.name
            assert hints[field.name] == expected(key), f"{kind.__name__}.{field.name}"
            assert field.repr is not key.sensitive, f"{kind.__name__}.{field.name} is a secret, or is none"


def test_no_settings_class_can_be_changed() -> None:
    found = kinds()
    assert len(found) > 12
    for kind in found:
        assert kind.__dataclass_params__.frozen, kind
        assert isinstance(inspect.getattr_static(kind, dataclasses.fields(kind)[0].name), types.MemberDescriptorType)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    minutes_ms: int = setting("offsets.retention.minutes", scale=60_000)
    threads: int = setting("log.cleaner.threads", default=3)
    name: str


def test_values_are_read_scaled_and_completed() -> None:
    read = read_settings(Example, {"offsets.retention.minutes": 2, "log.cleaner.threads": 5}, name="x")
    assert read == Example(minutes_ms=120_000, threads=5, name="x")
    assert Example(minutes_ms=1, name="y").threads == 3


def test_a_change_replaces_the_settings_as_a_whole() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Threads:
        count: int = setting("log.cleaner.threads")

    current = CurrentSettings(default_settings() | {"log.cleaner.threads": 1})
    before, values = current.of(Threads), current.values
    assert current.of(Threads) is before
    current.replace({**values, "log.cleaner.threads": 2})
    assert (before.count, current.of(Threads).count) == (1, 2)
    assert (values["log.cleaner.threads"], current.at_start["log.cleaner.threads"]) == (1, 1)
    with pytest.raises(TypeError):
        current.values["log.cleaner.threads"] = 3  # type: ignore[index]
