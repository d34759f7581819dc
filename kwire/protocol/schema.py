"""Declaration of messages: one typed class for all versions of a message, each field with its range of versions.

    @message(key=1, kind="request", versions="4-18", flexible="12+")
    class FetchRequest:
        replica_id: BrokerId = field("0-14", default=-1)
        topics: list[FetchTopic] = field("0+")

The decorators give such a class slots and a keyword-only constructor in which every field has Kafka's default. They
also store its Schema, from which kwire.protocol.codec compiles one decoder and one encoder per version. Fields are in
wire order. They are examined at their first use, because most messages are never used and the import would take longer.

`field` is deliberately no field specifier of the dataclass transform. Type checkers then treat the assignment as a
default, so that no argument of the constructor is mandatory, as in Kafka.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, dataclass_transform

from kwire.protocol.primitives import Primitive
from kwire.protocol.wire import TAGS_MAX

T = TypeVar("T")
Kind = Literal["request", "response", "header", "data"]
_UNBOUNDED = 0x7FFF
ELEMENTS_MAX: Final = 100_000
"""Most array elements of a request in total; each becomes an object and a step of its handler."""
_IMPLICIT: Any = object()


@dataclass(frozen=True, slots=True)
class Versions:
    """Closed range of versions; empty if `high` is below `low`."""

    low: int
    high: int

    @staticmethod
    def parse(text: str | None) -> "Versions":
        if text is None or text == "none":
            return Versions(0, -1)
        low, dash, high = text.removesuffix("+").partition("-")
        if text.endswith("+"):
            return Versions(int(low), _UNBOUNDED)
        return Versions(int(low), int(high if dash else low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> typing.Iterator[int]:
        return iter(range(self.low, self.high + 1))


@dataclass(frozen=True, slots=True)
class Array:
    """Array type; Kafka has no arrays of arrays."""

    element: "Primitive | Schema"


@dataclass(frozen=True, slots=True)
class FieldSchema:
    name: str
    type: "Primitive | Schema | Array"
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    ignorable: bool
    flexible: bool
    """False only for the request header's client id, which keeps its old length prefix in every version."""
    secret: bool

    def present(self, version: int) -> bool:
        return version in self.versions

    def in_tags(self, version: int) -> bool:
        return version in self.tagged


@dataclass(frozen=True, eq=False)
class Schema:
    """Schema of a class. A struct has no versions of its own; those of its message apply."""

    cls: type
    declared: "Mapping[str, _Declared]"
    frozen: bool
    kind: Kind | Literal["struct"] = "struct"
    key: int | None = None
    versions: Versions = Versions(0, -1)
    flexible: Versions = Versions(0, -1)
    elements_max: int = ELEMENTS_MAX
    tags_max: int = TAGS_MAX

    @property
    def name(self) -> str:
        return self.cls.__name__

    @cached_property
    def fields(self) -> tuple[FieldSchema, ...]:
        """The fields in wire order. Raises TypeError if a declaration contradicts its annotation."""
        hints = typing.get_type_hints(self.cls, include_extras=True)
        return tuple(_field_schema(self.cls, name, hint, self.declared[name]) for name, hint in hints.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """Arguments of `field`, stored until the decorator has the field's name and type."""

    versions: str
    default: Any
    nullable: str | None
    tag: int | None
    tagged: str | None
    ignorable: bool
    flexible: str | None
    secret: bool


def field(
    versions: str,
    *,
    default: Any = _IMPLICIT,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: str | None = None,
    secret: bool = False,
) -> Any:
    """Declare a field.

    `ignorable` fields are dropped by versions that lack them; any other field must then have its default, or encoding
    fails. Values of `secret` fields are omitted from a message's repr, which is used in logs and tracebacks.
    """
    if (tag is None) != (tagged is None):
        raise TypeError("tag and tagged must both be given")
    return _Declared(
        versions=versions,
        default=default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        flexible=flexible,
        secret=secret,
    )


_SCHEMAS: dict[type, Schema] = {}
_BY_KEY: dict[tuple[str, int], Schema] = {}


def schema_of(cls: type) -> Schema:
    """Return the schema of a class that was declared by `message` or `struct`."""
    return _SCHEMAS[cls]


def declared_messages() -> list[Schema]:
    """Return every message declared by the modules imported so far."""
    return [schema for schema in _SCHEMAS.values() if schema.kind != "struct"]


def find_message(kind: Literal["request", "response"], key: int) -> Schema | None:
    """Return the schema of an API's request or response, if its module is imported."""
    return _BY_KEY.get((kind, key))


@dataclass_transform(kw_only_default=True)
def message(
    *,
    versions: str,
    kind: Kind,
    key: int | None = None,
    flexible: str = "none",
    elements_max: int = ELEMENTS_MAX,
    tags_max: int = TAGS_MAX,
) -> Callable[[type[T]], type[T]]:
    """Declare a top-level message.

    `versions` are those of Kafka 4.3.1; `elements_max` is the most array elements that a request may have in total.
    `tags_max` limits the tagged fields of its header, and of its body if the message declares none.
    """

    def decorate(declared: type[T]) -> type[T]:
        cls, fields = _slotted(declared)
        schema = Schema(
            cls,
            fields,
            frozen=False,
            kind=kind,
            key=key,
            versions=Versions.parse(versions),
            flexible=Versions.parse(flexible),
            elements_max=elements_max,
            tags_max=tags_max,
        )
        _SCHEMAS[cls] = schema
        if key is not None and kind in ("request", "response"):
            _BY_KEY[kind, key] = schema
        return cls

    return decorate


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct for use in a message's field."""
    slotted, fields = _slotted(cls)
    _SCHEMAS[slotted] = Schema(slotted, fields, frozen=False)
    return slotted


@dataclass_transform(kw_only_default=True, frozen_default=True)
def frozen_struct(cls: type[T]) -> type[T]:
    """Declare an immutable struct that is a field's default; all messages share one instance."""
    fields = _fields_of(cls)
    for spec in Schema(cls, fields, frozen=True).fields:
        setattr(cls, spec.name, _dataclass_field(spec))
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass computes the signature's text, which is slow
    cls.__repr__ = _represent  # type: ignore[method-assign]
    frozen = dataclass(slots=True, kw_only=True, frozen=True, repr=False, match_args=False)(cls)
    _SCHEMAS[frozen] = Schema(frozen, fields, frozen=True)
    return frozen


def _fields_of(cls: type) -> "dict[str, _Declared]":
    return {name: cls.__dict__[name] for name in cls.__annotations__}


class _DataclassFields:
    """Attribute by which `dataclasses.fields` and `dataclasses.replace` know a class; replaced at its first use."""

    def __get__(self, instance: object, owner: type) -> dict[str, "dataclasses.Field[Any]"]:
        specs = [(spec.name, Any, _dataclass_field(spec)) for spec in _SCHEMAS[owner].fields]
        same = dataclasses.make_dataclass(owner.__name__, specs)
        owner.__dataclass_fields__ = {each.name: each for each in dataclasses.fields(same)}  # type: ignore[attr-defined]
        return owner.__dataclass_fields__  # type: ignore[attr-defined,no-any-return]


def _slotted(cls: type[T]) -> "tuple[type[T], dict[str, _Declared]]":
    """Return the class with a slot for each field, and the declarations of the fields."""
    fields = _fields_of(cls)
    kept = {name: value for name, value in cls.__dict__.items() if name not in (*fields, "__dict__", "__weakref__")}
    methods = {"__init__": _first_init, "__eq__": _equal, "__hash__": None, "__repr__": _represent}
    added = {"__slots__": tuple(fields), "__qualname__": cls.__qualname__, "__dataclass_fields__": _DataclassFields()}
    return type(cls.__name__, cls.__bases__, kept | methods | added), fields


def _first_init(self: Any, **values: Any) -> None:
    """Replace the constructor when a class's first instance is created that way, and call it.

    Most messages are only decoded, or not used at all, and creating all constructors took a third of the import time.
    """
    cls = self.__class__
    cls.__init__ = _make_init(_SCHEMAS[cls])
    cls.__init__(self, **values)


def _make_init(schema: Schema) -> Callable[..., None]:
    """Return dataclass's constructor: keyword-only, every field with its default, a new list for each []."""
    names: dict[str, Any] = {"_NEW": object()}
    parameters, body = ["self", "*"], []
    for spec in schema.fields:
        if isinstance(spec.type, Array) and spec.default == []:
            parameters.append(f"{spec.name}=_NEW")
            body.append(f"    self.{spec.name} = [] if {spec.name} is _NEW else {spec.name}")
        else:
            names[f"_{spec.name}"] = spec.default
            parameters.append(f"{spec.name}=_{spec.name}")
            body.append(f"    self.{spec.name} = {spec.name}")
    if not schema.fields:
        parameters.pop()
    text = "\n".join([f"def __init__({', '.join(parameters)}):", *(body or ["    pass"])])
    exec(text, names)  # noqa: S102 the names are those of declared fields
    constructor: Callable[..., None] = names["__init__"]
    return constructor


def _equal(self: Any, other: object) -> Any:
    """Compare messages. All classes share this function, because one per class would double the import time."""
    names: tuple[str, ...] = self.__slots__
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in names)


def _represent(self: Any) -> str:
    """Return only the values that differ from the defaults, so that a message fits into a log line."""
    schema = _SCHEMAS[self.__class__]
    values = ((spec, getattr(self, spec.name)) for spec in schema.fields)
    shown = [f"{spec.name}={'...' if spec.secret else repr(value)}" for spec, value in values if value != spec.default]
    return f"{schema.name}({', '.join(shown)})"


def _field_schema(cls: type, name: str, hint: Any, declared: _Declared) -> FieldSchema:
    wire_type, optional = _wire_type(hint)
    nullable = Versions.parse(declared.nullable)
    if optional != (nullable.high >= nullable.low):
        raise TypeError(f"{cls.__name__}.{name}: the annotation and `nullable` disagree")
    return FieldSchema(
        name=name,
        type=wire_type,
        versions=Versions.parse(declared.versions),
        nullable=nullable,
        tagged=Versions.parse(declared.tagged),
        tag=-1 if declared.tag is None else declared.tag,
        default=_implicit_default(wire_type) if declared.default is _IMPLICIT else declared.default,
        ignorable=declared.ignorable,
        flexible=declared.flexible != "none",
        secret=declared.secret,
    )


def _wire_type(hint: Any) -> tuple[Primitive | Schema | Array, bool]:
    """Return the wire type of an annotation, and True if it allows None."""
    origin = typing.get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        (inner,) = (arg for arg in typing.get_args(hint) if arg is not types.NoneType)
        return _wire_type(inner)[0], True
    if origin is list:
        element = _wire_type(typing.get_args(hint)[0])[0]
        assert not isinstance(element, Array)
        return Array(element), False
    if origin is typing.Annotated:
        primitive = typing.get_args(hint)[1]
        assert isinstance(primitive, Primitive)
        return primitive, False
    return _SCHEMAS[hint], False


def _implicit_default(wire_type: Primitive | Schema | Array) -> Any:
    if isinstance(wire_type, Array):
        return []
    if isinstance(wire_type, Schema):
        if not wire_type.frozen:
            raise TypeError(f"{wire_type.name} is a default and must be a frozen_struct")
        return wire_type.cls()
    return wire_type.default


def _dataclass_field(spec: FieldSchema) -> Any:
    if spec.default == [] and isinstance(spec.type, Array):
        return dataclasses.field(default_factory=list)
    return dataclasses.field(default=spec.default)
