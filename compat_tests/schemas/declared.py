"""All declarations of kwire, by message name."""

import importlib
import pkgutil

import kwire.protocol.messages
from kwire.protocol.schema import declared_messages

for module in pkgutil.iter_modules(kwire.protocol.messages.__path__):
    importlib.import_module(f"{kwire.protocol.messages.__name__}.{module.name}")
DECLARED = {schema.name: schema for schema in declared_messages()}
