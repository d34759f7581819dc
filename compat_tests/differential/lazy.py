"""Values that a script cannot know when it is made: each broker's own answers fill them in while it is replayed."""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from kwire.protocol.schema import Array, Schema, Versions, schema_of

LONG_NAME = re.compile(r"([nx])\1{20,}")
"""Names of the largest length, which nobody wants to read."""
Memory = dict[Hashable, Any]
"""What one broker has answered so far: topic ids, member ids, generations, sessions, producer ids."""


@dataclass(frozen=True, slots=True)
class Known:
    """The remembered value of this key, or the default while nothing is remembered."""

    key: Hashable
    default: Any

    def resolve(self, memory: Memory) -> Any:
        return memory.get(self.key, self.default)


@dataclass(frozen=True, slots=True)
class Made:
    """What the function makes of values that may be lazy themselves."""

    function: Callable[..., Any]
    values: dict[str, Any] = field(default_factory=dict)

    def resolve(self, memory: Memory) -> Any:
        return self.function(**{name: resolved(value, memory) for name, value in self.values.items()})

    def __repr__(self) -> str:
        return f"{self.function.__name__}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


def resolved(value: Any, memory: Memory) -> Any:
    return value.resolve(memory) if isinstance(value, Known | Made) else value


def filled(message: Any, version: int, memory: Memory) -> Any:
    """A copy of a request that this version can carry: lazy values resolved, what it lacks left at its default."""
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
    """A request as the script has it, without what is at its default, on one line of bounded length."""
    text = LONG_NAME.sub(r"\1...", repr(message))
    return text if len(text) < 1500 else f"{text[:1500]}... ({len(text)} characters)"
