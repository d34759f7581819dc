"""Compiler of decoders, one for each message and version.

The generated function is straight-line code with a loop per array, and has no calls for the usual sizes:

    def decode_X_v12(buf, pos): -> (value, position after it), or ProtocolError

Hostile input is bounded as follows. A Python slice beyond the buffer's end is silently shorter, so `pos` may
temporarily exceed the end. But it never decreases, because every length is checked to be non-negative. Every read of a
number or a length beyond the end raises, and the function finally compares `pos` with the end. Every array element
contains at least one such read, and counts are compared with the remaining bytes, so time and memory are proportional
to the input. A request may have ELEMENTS_MAX array elements in total, because each becomes an object and a step of its
handler. A decoder in pieces, for large requests, lets other tasks run between some elements.
"""

import struct
from collections.abc import Callable
from typing import Any

from kwire.protocol import wire
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.primitives import UUID16, Primitive
from kwire.protocol.schema import Array, FieldSchema, Schema
from kwire.protocol.source import Source


def compile_decoder(schema: Schema, version: int, *, in_pieces: bool = False) -> Callable[..., Any]:
    return _DecoderSource(f"decode_{schema.name}_v{version}", schema, version, in_pieces=in_pieces).build()


class _DecoderSource(Source):
    def __init__(self, name: str, schema: Schema, version: int, *, in_pieces: bool) -> None:
        super().__init__(name, schema, version, in_pieces=in_pieces)
        self._run: list[tuple[str, int, str]] = []
        self._after_run: list[str] = []
        self.names |= {
            "new": object.__new__,
            "ProtocolError": ProtocolError,
            "underflow": (struct.error, IndexError, ValueError),
            "read_rest": wire.read_rest,
            "read_string_length": wire.read_string_length,
            "read_tag_count": wire.read_tag_count,
            "read_tag": wire.read_tag,
            "skip_tags": wire.skip_tags,
            "uuid_from": wire.uuid_from,
            "unpack_from": struct.unpack_from,
        }

    def build(self) -> Callable[..., Any]:
        title = f"{self.schema.name} v{self.version}"
        with self.block(f"def {self.name}(buf, pos):"):
            self.begin_steps()
            self.line("end = len(buf)")
            if self.schema.kind == "request":
                self.line("elements = 0")
            with self.block("try:"):
                self._struct(self.schema, "message")
            with self.block("except underflow as error:"):
                self.line(f"raise ProtocolError(f'{title}: {{error}}') from error")
            with self.block("if pos > end:"):
                self.line(f"raise ProtocolError(f'{title} ends {{pos - end}} bytes early')")
            self.line("return message, pos")
        return self.compile()

    def _read_fixed(self, format_: str, size: int, target: str, after: str = "") -> None:
        self._run.append((format_, size, target))
        if after:
            self._after_run.append(after)

    def _flush(self) -> None:
        if not self._run:
            return
        if [format_ for format_, _, _ in self._run] == ["B"]:
            self.line(f"{self._run[0][2]} = buf[pos]")
            self.line("pos += 1")
            self._run.clear()
            return
        formats = "".join(format_ for format_, _, _ in self._run)
        targets = ", ".join(target for _, _, target in self._run) + ("," if len(self._run) == 1 else "")
        self.line(f"{targets} = {self.struct_method('unpack_from', formats)}(buf, pos)")
        self.line(f"pos += {sum(size for _, size, _ in self._run)}")
        for text in self._after_run:
            self.line(text)
        self._run.clear()
        self._after_run.clear()

    def _struct(self, schema: Schema, target: str) -> None:
        """Generate code for a struct: a frozen one is created last from local variables, any other is created first."""
        class_name = self.constant(schema.name + "_", schema.cls)
        prefix = f"{target}_" if schema.frozen else f"{target}."
        if not schema.frozen:
            self.line(f"{target} = new({class_name})")
        for spec in self.absent(schema) + self.tagged(schema):
            self.line(f"{prefix}{spec.name} = {self._default(spec)}")
        for spec in self.untagged(schema):
            self._field(spec, prefix + spec.name)
        if self.flexible:
            self._tags(self.tagged(schema), prefix)
        self._flush()
        if schema.frozen:
            self.line(f"{target} = {class_name}({', '.join(f'{f.name}={prefix}{f.name}' for f in schema.fields)})")

    def _default(self, spec: FieldSchema) -> str:
        if isinstance(spec.default, (str, bytes, int, float, list)) or spec.default is None:
            return repr(spec.default)
        return self.constant("default_", spec.default)

    def _tags(self, tagged: list[FieldSchema], prefix: str) -> None:
        tags = self.fresh("tags")
        self._read_fixed("B", 1, tags)
        self._flush()
        with self.block(f"if {tags}:"):
            if tagged:
                self._known_tags(tagged, prefix, tags)
            else:
                self.line(f"pos = skip_tags(buf, pos, {tags}, {self.schema.tags_max})")

    def _known_tags(self, tagged: list[FieldSchema], prefix: str, tags: str) -> None:
        tag, limit = self.fresh("tag"), self.fresh("limit")
        self.line(f"{tags}, pos = read_tag_count(buf, pos, {tags})")
        self.line(f"{tag} = -1")
        with self.block(f"for _ in range({tags}):"):
            self.line(f"{tag}, pos, {limit} = read_tag(buf, pos, {tag})")
            for index, spec in enumerate(tagged):
                with self.block(f"{'elif' if index else 'if'} {tag} == {spec.tag}:"):
                    self._field(spec, prefix + spec.name)
                    self._flush()
            with self.block("else:"):
                self.line(f"pos = {limit}")
            with self.block(f"if pos != {limit}:"):
                self.line(f"raise ProtocolError(f'tag {{{tag}}} has a wrong size')")

    def _field(self, spec: FieldSchema, target: str) -> None:
        nullable = self.version in spec.nullable
        if isinstance(spec.type, Array):
            self._array(spec, spec.type.element, target, nullable=nullable)
        elif isinstance(spec.type, Schema):
            self._nested_struct(spec.type, target, nullable=nullable, tagged=spec.in_tags(self.version))
        else:
            self._primitive(spec, spec.type, target, nullable=nullable)

    def _nested_struct(self, schema: Schema, target: str, *, nullable: bool, tagged: bool) -> None:
        """Generate code for a nullable struct: null is -1, but 0 in a tag section, where Kafka writes a varint."""
        inner = self.fresh("struct")
        if not nullable:
            self._struct(schema, inner)
            self.line(f"{target} = {inner}")
            return
        self._read_fixed("B" if tagged else "b", 1, "presence")
        self._flush()
        if tagged:
            with self.block("if presence > 1:"):
                self.line(f"raise ProtocolError(f'{schema.name} has presence {{presence}}')")
        with self.block("if presence == 0:" if tagged else "if presence < 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self._struct(schema, inner)
            self.line(f"{target} = {inner}")

    def _primitive(self, spec: FieldSchema, primitive: Primitive, target: str, *, nullable: bool) -> None:
        if primitive.format:
            after = f"{target} = uuid_from({target})" if primitive is UUID16 else ""
            self._read_fixed(primitive.format, primitive.size, target, after)
            return
        old_format = "h" if primitive.name == "string" else "i"
        self._length(old_format, compact=self.compact(spec))
        self._null(spec.name, "size", target, nullable=nullable)
        with self.block("else:"):
            self.line("stop = pos + size")
            self.line(f"{target} = {_SLICES[primitive.name]}")
            self.line("pos = stop")

    def _length(self, old_format: str, *, compact: bool, target: str = "size") -> None:
        """Generate code that reads a length or count into `target`; null is -1.

        One byte is read in place: decoders are 1.1 to 1.2 times as fast as with a call of read_unsigned_varint.
        """
        if not compact:
            self._read_fixed(old_format, struct.calcsize(">" + old_format), target)
            self._flush()
            return
        self._read_fixed("B", 1, target)
        self._flush()
        reader = "read_string_length" if old_format == "h" else "read_rest"
        with self.block(f"if {target} > 127:"):
            self.line(f"{target}, pos = {reader}(buf, pos, {target})")
        self.line(f"{target} -= 1")

    def _null(self, name: str, length: str, target: str, *, nullable: bool) -> None:
        """Generate code for negative lengths; the caller continues with the `else` for the value itself."""
        with self.block(f"if {length} < 0:"):
            if nullable:
                with self.block(f"if {length} != -1:"):
                    self.line(f"raise ProtocolError(f'{name} has length {{{length}}}')")
                self.line(f"{target} = None")
            else:
                self.line(f"raise ProtocolError(f'{name} has length {{{length}}}')")

    def _array(self, spec: FieldSchema, element: Primitive | Schema, target: str, *, nullable: bool) -> None:
        self._length("i", compact=self.compact(spec), target="count")
        self._null(spec.name, "count", target, nullable=nullable)
        with self.block("else:"):
            smallest = self._smallest_element(spec, element)
            with self.block(f"if count * {smallest} > end - pos:" if smallest > 1 else "if count > end - pos:"):
                self.line(f"raise ProtocolError(f'{spec.name} claims {{count}} elements')")
            if self.schema.kind == "request":
                self.line("elements += count")
                with self.block(f"if elements > {self.schema.elements_max}:"):
                    self.line(f"raise ProtocolError(f'{spec.name} brings the request to {{elements}} elements')")
            if isinstance(element, Primitive) and element.format and not (element is UUID16 and self.in_pieces):
                self._fixed_elements(element, target)
            else:
                self._loop(spec, element, target)

    def _smallest_element(self, spec: FieldSchema, element: Primitive | Schema) -> int:
        if isinstance(element, Schema):
            smallest = self.smallest_struct(element)
            assert smallest > 0, f"an element of {spec.name} has no bytes in version {self.version}"
            return smallest
        if element.format:
            return element.size
        if self.compact(spec):
            return 1
        return 2 if element.name == "string" else 4

    def _fixed_elements(self, element: Primitive, target: str) -> None:
        self.line(f"stop = pos + count * {element.size}")
        if element is UUID16:
            self.line(f"{target} = [uuid_from(bytes(buf[at : at + 16])) for at in range(pos, stop, 16)]")
        else:
            self.line(f"{target} = list(unpack_from(f'>{{count}}{element.format}', buf, pos))")
        self.line("pos = stop")

    def _loop(self, spec: FieldSchema, element: Primitive | Schema, target: str) -> None:
        items = self.fresh("items")
        self.line(f"{target} = {items} = []")
        with self.block("for _ in range(count):"):
            item = self.fresh("item")
            if isinstance(element, Schema):
                self._struct(element, item)
            else:
                self._primitive(spec, element, item, nullable=False)
                self._flush()
            self.line(f"{items}.append({item})")
            self.step()


_SLICES = {
    "string": "buf[pos:stop].decode()",
    "bytes": "bytes(buf[pos:stop])",
    "records": "memoryview(buf)[pos:stop]",
}
