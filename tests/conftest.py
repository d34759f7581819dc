"""Settings of all tests, and option `--planted-bug NAME`: the tests run with one bug of tests/planted in the code."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--planted-bug", metavar="NAME", help="run with a bug of tests/planted/catalogue.py in the code")


def pytest_configure(config: pytest.Config) -> None:
    # A loaded machine may hold a test for longer than any deadline.
    settings.register_profile("kwire", deadline=None)
    settings.load_profile("kwire")
    name = config.getoption("--planted-bug")
    if name is None:
        return
    from tests.planted.catalogue import BUGS

    if name not in BUGS:
        raise pytest.UsageError(f"no bug is called {name!r}; there are: {', '.join(sorted(BUGS))}")
    # The first failing example is enough. Hypothesis must not store it and replay it later without the bug.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("planted", settings(), database=None, derandomize=True, phases=phases)
    settings.load_profile("planted")
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    BUGS[name].plant(patch)
