"""Rules for all message declarations: the tests of this folder cover each one, and the table of contents is correct.

A comparison with Apache Kafka's own schemas is in compat_tests/schemas, which needs Kafka's jars.
"""

import ast
import re
from pathlib import Path

import kwire.protocol.messages
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.schema import Array, Schema, Versions

from .strategies import all_messages, all_versions

(FOLDER,) = map(Path, kwire.protocol.messages.__path__)


def test_every_declared_message_and_version_is_tested() -> None:
    assert sorted(schema.name for schema in all_messages()) == sorted(_decorated("message"))
    assert len(all_versions()) == sum(schema.versions.high - schema.versions.low + 1 for schema in all_messages())


def test_every_api_has_a_request_and_a_response_in_its_own_module() -> None:
    for kind in ("request", "response"):
        found = {schema.key: schema for schema in all_messages() if schema.kind == kind and schema.key is not None}
        assert set(found) == set(ApiKey)
        for key, schema in found.items():
            module = ApiKey(key).name.lower()
            assert schema.cls.__module__ == f"{kwire.protocol.messages.__name__}.{module}"
            assert schema.name == _camel_case(module) + kind.capitalize()


def test_requests_and_responses_go_together() -> None:
    """A response has the same version as its request."""
    ranges: dict[int | None, set[tuple[Versions, Versions]]] = {}
    for schema in all_messages():
        if schema.kind in ("request", "response"):
            ranges.setdefault(schema.key, set()).add((schema.versions, schema.flexible))
    assert not {key: found for key, found in ranges.items() if len(found) > 1}


def test_every_struct_belongs_to_a_message() -> None:
    used: set[str] = set()
    for schema in all_messages():
        used |= _structs(schema)
    assert used == set(_decorated("struct") + _decorated("frozen_struct"))


def _decorated(decorator: str) -> list[str]:
    """Return the names of the classes with the decorator, from the source code."""
    return [
        node.name
        for path in sorted(FOLDER.glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and any(re.match(rf"{decorator}\b", ast.unparse(each)) for each in node.decorator_list)
    ]


def _structs(schema: Schema) -> set[str]:
    found: set[str] = set()
    for field in schema.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Schema):
            found |= {inner.name} | _structs(inner)
    return found


def _camel_case(module: str) -> str:
    return "".join(word.capitalize() for word in module.split("_"))
