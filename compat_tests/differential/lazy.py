"""Values that a script cannot contain: the replay takes them from each broker's own earlier responses."""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from kwire.protocol.schema import Array, Schema, Versions, schema_of

LONG_NAME = re.compile(r"([nx])\1{20,}")
"""Names of the maximum length, which are shortened for output."""
Memory = dict[Hashable, Any]
"""Values from one broker's responses: topic ids, member ids, generations, sessions, producer ids."""


@dataclass(frozen=True, slots=True)
class Known:
    """The remembered value of a key, or the default if there is none yet."""

    key: Hashable
    default: Any

    def resolve(self, memory: Memory) -> Any:
        return memory.get(self.key, self.default)


@dataclass(frozen=True, slots=True)
class Made:
    """Result of a function of values that may be lazy themselves."""

    function: Callable[..., Any]
    values: dict[str, Any] = field(default_factory=dict)

    def resolve(self, memory: Memory) -> Any:
        return self.function(**{name: resolved(value, memory) for name, value in self.values.items()})

    def __repr__(self) -> str:
        return f"{self.function.__name__}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


def resolved(value: Any, memory: Memory) -> Any:
    return value.resolve(memory) if isinstance(value, Known | Made) else value


def filled(message: Any, version: int, memory: Memory) -> Any:
    """Return a copy of a request for this version: lazy values resolved, and missing fields at their defaults."""
    return _filled(schema_of(type(message)), message, version, schema_of(type(message)).flexible, memory)


def _filled(schema: Schema, message: Any, version: int, flexible: Versions, memory: Memory) -> Any:
    values = {}
    for spec in schema.fields:
        if not spec.present(version):
            continue
        value = resolved(getattr(message, spec.name), memory)
        if value is None:
            if version not in spec.nullable:
                continue
        elif isinstance(spec.type, Array):
            element = spec.type.element
            inner = [resolved(each, memory) for each in value]
            value = (
                [_filled(element, each, version, flexible, memory) for each in inner]
                if isinstance(element, Schema)
                else inner
            )
        elif isinstance(spec.type, Schema):
            value = _filled(spec.type, value, version, flexible, memory)
        values[spec.name] = value
    return schema.cls(**values)


def shown(message: Any) -> str:
    """Return a request as in the script, without default values, as one line of bounded length."""
    text = LONG_NAME.sub(r"\1...", repr(message))
    return text if len(text) < 1500 else f"{text[:1500]}... ({len(text)} characters)"
