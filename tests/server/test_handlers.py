"""Handlers of APIs: a traceback names the API."""

from __future__ import annotations

from typing import Any

from kwire.server.apis import SERVED
from kwire.server.assembly import controller_role

FORWARDED = "kwire.server.other_nodes.forwarding"


def test_a_traceback_names_the_api_of_a_handler() -> None:
    apis: list[Any] = [*SERVED, *controller_role.SERVED]
    unnamed = {
        api.handle.__qualname__
        for api in apis
        if api.handle.__module__ != FORWARDED and "handle_" not in api.handle.__qualname__
    }
    assert unnamed == set()
