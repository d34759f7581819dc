"""Compiler of encoders, one for each message and version.

    def encode_X_v12(message, out, detached): appends to the bytearray `out`, or raises EncodeError

Adjacent fixed-size fields, lengths of old-style strings and arrays, and empty tag sections are written by one pack.
"""

import struct
from collections.abc import Callable
from typing import Any

from kwire.protocol import wire
from kwire.protocol.error_codes import EncodeError
from kwire.protocol.primitives import UUID16, Primitive
from kwire.protocol.schema import Array, FieldSchema, Schema
from kwire.protocol.source import Source


def compile_encoder(schema: Schema, version: int, *, in_pieces: bool = False) -> Callable[..., Any]:
    return _EncoderSource(f"encode_{schema.name}_v{version}", schema, version, in_pieces=in_pieces).build()


class _EncoderSource(Source):
    def __init__(self, name: str, schema: Schema, version: int, *, in_pieces: bool) -> None:
        super().__init__(name, schema, version, in_pieces=in_pieces)
        self._run: list[tuple[str, str]] = []
        self._out = "out"
        self.names |= {
            "EncodeError": EncodeError,
            "unfit": (struct.error, TypeError, AttributeError, ValueError),
            "pack": struct.pack,
            "write_unsigned_varint": wire.write_unsigned_varint,
            "write_string_length": wire.write_string_length,
            "write_tags": wire.write_tags,
        }

    def build(self) -> Callable[..., Any]:
        with self.block(f"def {self.name}(message, out, detached):"):
            self.begin_steps()
            with self.block("try:"):
                self._struct(self.schema, "message")
                self._flush()
                self.line("return")
            with self.block("except unfit as error:"):
                self.line(f"raise EncodeError(f'{self.schema.name} v{self.version}: {{error}}') from error")
        return self.compile()

    def _write_fixed(self, format_: str, value: str = "") -> None:
        self._run.append((format_, value))

    def _flush(self) -> None:
        if not self._run:
            return
        formats = "".join(format_ for format_, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        self._run.clear()
        if not values:
            self.line(f"{self._out} += {bytes(len(formats))!r}")
        else:
            self.line(f"{self._out} += {self.struct_method('pack', formats)}({values})")

    def _struct(self, schema: Schema, source: str) -> None:
        for spec in self.absent(schema):
            self._reject_unless_default(spec, f"{source}.{spec.name}")
        for spec in self.untagged(schema):
            self._field(spec, f"{source}.{spec.name}")
        if self.flexible:
            self._tags(self.tagged(schema), source)

    def _reject_unless_default(self, spec: FieldSchema, source: str) -> None:
        if spec.ignorable:
            return
        with self.block(f"if {self._differs(spec, source)}:"):
            self.line(f"raise ValueError('this version has no {spec.name}')")

    def _differs(self, spec: FieldSchema, source: str) -> str:
        """Return an expression that is true unless the field has its default."""
        default = spec.default
        if default is None:
            return f"{source} is not None"
        if default is False or (isinstance(spec.type, Array) and spec.nullable.high < 0):
            return source
        if isinstance(default, (str, bytes, int, float, list)):
            return f"{source} != {default!r}"
        constant = self.constant("default_", default)
        return f"{source} is not {constant} and {source} != {constant}"

    def _tags(self, tagged: list[FieldSchema], source: str) -> None:
        if not tagged:
            self._write_fixed("x")
            return
        self._flush()
        conditions = [self._differs(spec, f"{source}.{spec.name}") for spec in tagged]
        with self.block(f"if {' or '.join(conditions)}:"):
            tags, outer = self.fresh("tags"), self._out
            self.line(f"{tags} = []")
            for spec, condition in zip(tagged, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self._tag(spec, f"{source}.{spec.name}", tags)
            self._out = outer
            self.line(f"write_tags({outer}, {tags})")
        with self.block("else:"):
            self.line(f"{self._out}.append(0)")

    def _tag(self, spec: FieldSchema, source: str, tags: str) -> None:
        self._out = self.fresh("body")
        self.line(f"{self._out} = bytearray()")
        self._field(spec, source)
        self._flush()
        self.line(f"{tags}.append(({spec.tag}, {self._out}))")

    def _field(self, spec: FieldSchema, source: str) -> None:
        nullable = self.version in spec.nullable
        if isinstance(spec.type, Array):
            self._array(spec, spec.type.element, source, nullable=nullable)
        elif isinstance(spec.type, Schema):
            self._nested_struct(spec.type, source, nullable=nullable, tagged=spec.in_tags(self.version))
        else:
            self._primitive(spec, spec.type, source, nullable=nullable)

    def _nested_struct(self, schema: Schema, source: str, *, nullable: bool, tagged: bool) -> None:
        """Generate code for a nullable struct: null is -1, but 0 in a tag section, where Kafka writes a varint."""
        inner = self.fresh("struct")
        self.line(f"{inner} = {source}")
        if not nullable:
            self._struct(schema, inner)
            return
        self._flush()
        with self.block(f"if {inner} is None:"):
            self.line(f"{self._out}.append({0 if tagged else 255})")
        with self.block("else:"):
            self._write_fixed("b", "1")
            self._struct(schema, inner)
            self._flush()

    def _primitive(self, spec: FieldSchema, primitive: Primitive, source: str, *, nullable: bool) -> None:
        if primitive.format:
            self._write_fixed(primitive.format, f"{source}.bytes" if primitive is UUID16 else source)
            return
        data = self.fresh("data")
        if nullable:
            self.line(f"{data} = {source}")
            with self.block(f"if {data} is not None:"):
                self.line(f"{data} = {_to_bytes(primitive, data)}")
            self._length(data, "h" if primitive.name == "string" else "i", compact=self.compact(spec), nullable=True)
            with self.block(f"if {data} is not None:"):
                self._append(primitive, data)
        else:
            self.line(f"{data} = {_to_bytes(primitive, source)}")
            self._length(data, "h" if primitive.name == "string" else "i", compact=self.compact(spec), nullable=False)
            self._append(primitive, data)

    def _append(self, primitive: Primitive, data: str) -> None:
        if primitive.name != "records":
            self.line(f"{self._out} += {data}")
            return
        assert self._out == "out", "records inside a tag cannot be detached"
        with self.block("if detached is None:"):
            self.line(f"out += {data}")
        with self.block(f"elif {data}:"):
            self.line(f"detached.append((len(out), {data}))")

    def _length(self, data: str, old_format: str, *, compact: bool, nullable: bool) -> None:
        """Generate code that writes the length prefix and everything before it, so that the data can follow.

        One byte is written in place: encoders are 1.3 to 1.4 times as fast as with a call of write_unsigned_varint.
        """
        null = f"-1 if {data} is None else " if nullable else ""
        if not compact:
            self._write_fixed(old_format, f"{null}len({data})")
            self._flush()
            return
        self._flush()
        null = f"0 if {data} is None else " if nullable else ""
        writer = "write_string_length" if old_format == "h" else "write_unsigned_varint"
        self.line(f"size = {null}len({data}) + 1")
        with self.block("if size < 128:"):
            self.line(f"{self._out}.append(size)")
        with self.block("else:"):
            self.line(f"{writer}({self._out}, size)")

    def _array(self, spec: FieldSchema, element: Primitive | Schema, source: str, *, nullable: bool) -> None:
        items = self.fresh("items")
        self.line(f"{items} = {source}")
        self._length(items, "i", compact=self.compact(spec), nullable=nullable)
        if not nullable:
            self._elements(spec, element, items)
            return
        with self.block(f"if {items} is not None:"):
            self._elements(spec, element, items)

    def _elements(self, spec: FieldSchema, element: Primitive | Schema, items: str) -> None:
        if isinstance(element, Primitive) and element.format and element is not UUID16:
            self.line(f"{self._out} += pack(f'>{{len({items})}}{element.format}', *{items})")
            return
        item = self.fresh("item")
        with self.block(f"for {item} in {items}:"):
            if isinstance(element, Schema):
                self._struct(element, item)
            else:
                self._primitive(spec, element, item, nullable=False)
            self._flush()
            self.step()


def _to_bytes(primitive: Primitive, source: str) -> str:
    return f"{source}.encode()" if primitive.name == "string" else source
