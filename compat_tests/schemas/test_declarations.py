"""kwire declares every message of Apache Kafka 4.3.1, and each declaration equals Kafka's schema.

The schemas come from the jars of the reference; no broker runs.
"""

import pytest

from compat_tests.schemas.comparison import fields_of_ours, fields_of_theirs, heading_of_ours, heading_of_theirs
from compat_tests.schemas.declared import DECLARED

DROPPED = {"ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata"}
"""Messages whose files Kafka 4 keeps without versions and fields, so that their API keys stay reserved."""
each_message = pytest.mark.parametrize("name", sorted(DECLARED))


def test_every_message_of_kafka_is_declared_and_no_other(schemas):
    assert set(DECLARED) == set(schemas.living)
    assert len(schemas.living) == 272


def test_removed_messages_have_no_fields(schemas):
    rest = {name: schema for name, schema in schemas.messages.items() if name not in schemas.living}
    assert set(rest) == {api + kind for api in DROPPED for kind in ("Request", "Response")}
    assert not any(schema.get("fields") for schema in rest.values())


def test_every_message_class_of_the_jars_has_a_schema(schemas):
    assert set(schemas.classes) - set(schemas.messages) == set()
    assert set(schemas.living) - set(schemas.classes) == set()


@each_message
def test_message_type_api_key_and_versions_match(schemas, name):
    assert heading_of_ours(DECLARED[name]) == heading_of_theirs(schemas.messages[name])


@each_message
def test_message_fields_match(schemas, name):
    ours, theirs = fields_of_ours(DECLARED[name]), fields_of_theirs(schemas.messages[name])
    assert list(ours) == list(theirs)
