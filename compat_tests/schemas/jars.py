"""Message schemas in the jars of Apache Kafka: JSON with comments, one file per message."""

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness.reference import HOME, class_path

JARS = "kafka*.jar"
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
_CLASS = re.compile(r"/(?:common/message|common/metadata|generated)/(\w+)\.class$")
_WIRE_DATA = ("RequestData", "ResponseData", "HeaderData")
_HELPERS = re.compile(r"(?:JsonConverters?|Type)$")


@dataclass(frozen=True, slots=True)
class KafkaSchemas:
    """Schemas by message name."""

    messages: dict
    classes: dict
    """Names of the Java classes, which include messages whose schema is in no jar."""

    @property
    def living(self):
        """Return the schemas with a version: Kafka 4 keeps a file without versions for each removed API."""
        return {name: schema for name, schema in self.messages.items() if schema["validVersions"] != "none"}


def read_schemas():
    class_path()
    messages, classes = {}, {}
    for jar in sorted((HOME / "lib").glob(JARS)):
        _read_jar(jar, messages, classes)
    return KafkaSchemas(messages, classes)


def _read_jar(jar: Path, messages: dict, classes: dict):
    with zipfile.ZipFile(jar) as archive:
        for path in archive.namelist():
            if path.endswith(".json"):
                schema = json.loads(_COMMENT.sub(lambda match: match[1] or "", archive.read(path).decode()))
                assert schema["name"] not in messages, f"{jar.name} has a second {schema['name']}"
                messages[schema["name"]] = schema
            elif (found := _CLASS.search(path)) and not _HELPERS.search(found[1]):
                name = found[1].removesuffix("Data") if found[1].endswith(_WIRE_DATA) else found[1]
                classes[name] = path.removesuffix(".class").replace("/", ".")
