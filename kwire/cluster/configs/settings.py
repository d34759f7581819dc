"""Settings of components as frozen dataclasses, whose fields name the configuration keys that they are read from.

The fields are attributes that mypy knows. `tests/cluster/test_settings.py` compares their types with those of the keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    SettingsT = TypeVar("SettingsT", bound=DataclassInstance)
else:
    SettingsT = TypeVar("SettingsT")

KEY: Final = "key"
"""Metadata of a field: the name of its configuration key."""
SCALE: Final = "scale"
"""Metadata of a field: the factor from the unit of the key to that of the field, or None."""


def setting(name: str, *, default: Any = dataclasses.MISSING, scale: int | None = None, secret: bool = False) -> Any:
    """Declare a field that is read from a configuration key; `scale` converts its unit.

    `secret` keeps the value out of the settings' repr.
    """
    return dataclasses.field(default=default, repr=not secret, metadata={KEY: name, SCALE: scale})


def read_settings(kind: type[SettingsT], values: Mapping[str, Any], **others: Any) -> SettingsT:
    """Return the settings of a component from the typed values of all keys; `others` are its other fields."""
    return kind(
        **{each.name: _value(each, values) for each in dataclasses.fields(kind) if KEY in each.metadata}, **others
    )


def _value(field: dataclasses.Field[Any], values: Mapping[str, Any]) -> Any:
    value, scale = values[field.metadata[KEY]], field.metadata[SCALE]
    return value if scale is None else value * scale


class CurrentSettings:
    """Settings of a node as they are now; a change of the dynamic configuration replaces all of them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Begin with the typed values of all keys at start."""
        self.at_start: Mapping[str, Any] = MappingProxyType(dict(values))
        self.values = self.at_start
        """Typed values of all keys: altered dynamically, given, or default. Never changed, but replaced."""
        self._read: dict[type, Any] = {}

    def of(self, kind: type[SettingsT]) -> SettingsT:
        """Return the settings of a component."""
        found: SettingsT | None = self._read.get(kind)
        if found is None:
            found = self._read[kind] = read_settings(kind, self.values)
        return found

    def replace(self, values: Mapping[str, Any]) -> None:
        """Let other values take effect."""
        self.values = MappingProxyType(dict(values))
        self._read = {}
