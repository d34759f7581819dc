"""Seeds that tests run: a few each time, more of them in `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

SHORT = 2
"""Highest seed that runs each time."""


def by_length(seeds: Iterable[int]) -> list[Any]:
    """Return seeds as parameters; those above SHORT are marked as long."""
    return [pytest.param(seed, marks=pytest.mark.long) if seed > SHORT else seed for seed in seeds]


def asked(request: pytest.FixtureRequest) -> list[int]:
    """Return the seeds of the selected tests in a module, for a fixture of that module."""
    items = [item for item in request.session.items if item.getparent(pytest.Module) is request.node]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return sorted({each["seed"] for each in parameters if "seed" in each})
