"""Writer of Python source for the compilers of decoders and encoders.

It maintains indentation, fresh variable names and the namespace of the generated function, and creates Structs for runs
of adjacent fixed-size values. Generated source is registered with linecache, so that tracebacks show it.
"""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kwire.protocol.schema import Array, FieldSchema, Schema

STEPS: Final = 128
"""Array elements between two yields of a function in pieces, which take some tenths of a millisecond."""


class Source:
    """Source of one generated function."""

    def __init__(self, name: str, schema: Schema, version: int, *, in_pieces: bool) -> None:
        """Begin a function; `in_pieces` makes it a generator that yields None after each STEPS elements."""
        self.name = name + ("_in_pieces" if in_pieces else "")
        self.in_pieces = in_pieces
        self.schema = schema
        self.version = version
        self.flexible = version in schema.flexible
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: object) -> str:
        """Return a name for `value` in the generated function's namespace."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def struct_method(self, method: str, formats: str) -> str:
        name = f"{method}_{formats.replace('?', 'bool_')}"
        self.names.setdefault(name, getattr(struct.Struct(">" + formats), method))
        return name

    def compile(self) -> Callable[..., Any]:
        text = "\n".join(self._lines) + "\n"
        filename = f"<kwire codec {self.name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)  # noqa: S102 - the text is made of declarations of our own
        function: Callable[..., Any] = self.names[self.name]
        return function

    def begin_steps(self) -> None:
        if self.in_pieces:
            self.line(f"steps = {STEPS}")
            with self.block("if False:"):  # makes it a generator even without arrays
                self.line("yield")

    def step(self) -> None:
        """Generate the step counter at the end of the body of each loop over elements."""
        if not self.in_pieces:
            return
        self.line("steps -= 1")
        with self.block("if steps == 0:"):
            self.line(f"steps = {STEPS}")
            self.line("yield")

    def compact(self, spec: FieldSchema) -> bool:
        """Return True if the field's length has its compact form."""
        return self.flexible and spec.flexible

    def untagged(self, schema: Schema) -> list[FieldSchema]:
        return [f for f in schema.fields if f.present(self.version) and not f.in_tags(self.version)]

    def tagged(self, schema: Schema) -> list[FieldSchema]:
        found = [f for f in schema.fields if f.present(self.version) and f.in_tags(self.version)]
        return sorted(found, key=lambda spec: spec.tag)

    def absent(self, schema: Schema) -> list[FieldSchema]:
        return [f for f in schema.fields if not f.present(self.version)]

    def smallest_struct(self, schema: Schema) -> int:
        """Return the minimum size of a struct, which bounds an array's count."""
        return sum(self._smallest(spec) for spec in self.untagged(schema)) + (1 if self.flexible else 0)

    def _smallest(self, spec: FieldSchema) -> int:
        if isinstance(spec.type, Array):
            return 1 if self.compact(spec) else 4
        if isinstance(spec.type, Schema):
            return 1 if self.version in spec.nullable else self.smallest_struct(spec.type)
        if spec.type.format:
            return spec.type.size
        if self.compact(spec):
            return 1
        return 2 if spec.type.name == "string" else 4
