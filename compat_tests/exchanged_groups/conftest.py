"""Fixtures: the tested broker by name, and the control story of Apache Kafka alone."""

import pytest

from compat_tests.exchanged_groups.story import tell


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")


@pytest.fixture(scope="session")
def control(tmp_path_factory):
    """Return a function with the answers of a directory that Apache Kafka alone serves, stopped or killed."""
    told = {}

    def answers(*, clean):
        if clean not in told:
            home = tmp_path_factory.mktemp("control") / "home"
            told[clean] = tell(home, ("kafka",) * 3, clean=clean)
        return told[clean]

    return answers
