import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.schema import Schema

from .samples import sample_bytes
from .strategies import all_messages, all_versions, name_of, values

each_version = pytest.mark.parametrize(("schema", "version"), all_versions(), ids=name_of)
each_message = pytest.mark.parametrize("schema", all_messages(), ids=name_of)


@each_version
def test_defaults_survive(schema: Schema, version: int) -> None:
    assert _round_trip(schema, version, schema.cls()) == schema.cls()


@each_message
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_values_survive(schema: Schema, data: st.DataObject) -> None:
    for version in schema.versions:
        value = data.draw(values(schema, version), label=f"v{version}")
        assert _round_trip(schema, version, value) == value


@each_version
def test_a_truncated_message_is_rejected(schema: Schema, version: int) -> None:
    """A decoder of a prefix reads the same bytes as of the whole message, so it always needs more."""
    whole = sample_bytes(schema, version, random.Random(f"{schema.name} {version}"))
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_prefix(schema.cls, version, whole[:size])
        with pytest.raises(ProtocolError):
            decode_prefix(schema.cls, version, bytearray(whole[:size]))


def _round_trip(schema: Schema, version: int, value: Any) -> Any:
    """Encode and decode the value between other bytes, which must not matter."""
    out = bytearray(b"before")
    encode(value, version, out)
    end = len(out)
    out += b"after"
    decoded: Any
    decoded, position = decode_prefix(schema.cls, version, out, len(b"before"))
    assert position == end
    return decoded
