"""Comparison of a kwire declaration with Kafka's schema, field by field.

Both become the same tuples of plain values, so that a difference shows as two lines. Names are compared in snake case.
Two properties of a schema are not compared, because kwire has no place for them. One is the key field of a map: kwire
reads such arrays as lists. The other is the name of a nested struct: kwire prefixes it with the API's name where Kafka
uses one name in several APIs.
"""

import re
import typing
from uuid import UUID

from kwire.protocol.primitives import Entity
from kwire.protocol.schema import Array, Schema, Versions

KINDS = {"request": "request", "response": "response", "header": "header"}
ZERO = {"bool": False, "float64": 0.0, "uuid": UUID(int=0), "string": "", "bytes": b"", "records": None}


def heading_of_ours(schema):
    return {"kind": schema.kind, "key": schema.key, "versions": schema.versions, "flexible": schema.flexible}


def heading_of_theirs(schema):
    return {
        "kind": KINDS.get(schema["type"], "data"),
        "key": schema.get("apiKey"),
        "versions": Versions.parse(schema["validVersions"]),
        "flexible": Versions.parse(schema.get("flexibleVersions")),
    }


def fields_of_ours(schema, path=""):
    """Yield (path, declaration) of each field; a struct comes before its own fields."""
    hints = typing.get_type_hints(schema.cls, include_extras=True)
    for field in schema.fields:
        wire_type, is_array = (field.type.element, True) if isinstance(field.type, Array) else (field.type, False)
        is_struct = isinstance(wire_type, Schema)
        kind = "struct" if is_struct else wire_type.name.replace("boolean", "bool")
        yield (
            f"{path}{field.name}",
            {
                "type": f"[]{kind}" if is_array else kind,
                "entity": _entity(hints[field.name]),
                "versions": field.versions,
                "nullable": field.nullable,
                "tag": field.tag,
                "tagged": field.tagged,
                "default": _plain(field.default),
                "ignorable": field.ignorable,
                "flexible": field.flexible,
            },
        )
        if is_struct:
            yield from fields_of_ours(wire_type, f"{path}{field.name}.")


def fields_of_theirs(message):
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    return _fields(message.get("fields", ()), common, "")


def _fields(fields, common, path):
    for field in fields:
        name = snake_case(field["name"])
        element = field["type"].removeprefix("[]")
        nested = field.get("fields") or common.get(element)
        yield f"{path}{name}", _field(field, element if nested is None else "struct", nested, common)
        if nested is not None:
            yield from _fields(nested, common, f"{path}{name}.")


def _field(field, kind, nested, common):
    is_array = field["type"].startswith("[]")
    return {
        "type": f"[]{kind}" if is_array else kind,
        "entity": field.get("entityType", ""),
        # A tagged field need not state its versions twice.
        "versions": Versions.parse(field.get("versions", field.get("taggedVersions"))),
        "nullable": Versions.parse(field.get("nullableVersions")),
        "tag": field.get("tag", -1),
        "tagged": Versions.parse(field.get("taggedVersions")),
        "default": _default(field.get("default"), "array" if is_array else kind, nested, common),
        "ignorable": field.get("ignorable", False),
        "flexible": field.get("flexibleVersions") != "none",
    }


def _default(text, kind, nested, common):
    """Return the default value. Kafka writes "null" for null; a bare null or no default is the type's own default."""
    if text == "null":
        return None
    if kind == "array":
        return []
    if kind == "struct":
        return _default_struct(nested, common)
    if text is None or text == "":
        return ZERO.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    if "int" in kind:
        return int(str(text), 0)
    return float(text) if kind == "float64" else text


def _default_struct(fields, common):
    found = {path: field["default"] for path, field in _fields(fields, common, "")}
    return {path: default for path, default in found.items() if "." not in path}


def _plain(default):
    """Convert structs to dictionaries."""
    if hasattr(type(default), "__dataclass_fields__"):
        return {name: _plain(getattr(default, name)) for name in type(default).__slots__}
    return default


def _entity(hint):
    """Return Kafka's name for what a field's values identify; empty if it adds nothing to the type."""
    if typing.get_origin(hint) is typing.Annotated:
        return next((extra.name for extra in typing.get_args(hint) if isinstance(extra, Entity)), "")
    return "".join(_entity(inner) for inner in typing.get_args(hint))


def snake_case(name):
    """Convert a name to snake case: KRaft is one word, and a run of capitals is an acronym."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name.replace("KRaft", "Kraft"))
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
