"""Fixtures: names of topics and groups that no other test of any run uses."""

import uuid

import pytest


@pytest.fixture
def unique():
    """Return a function that creates names which no other test of any run uses."""
    suffix = uuid.uuid4().hex[:10]

    def name(role: str) -> str:
        return f"{role}-{suffix}"

    return name


@pytest.fixture
def topic(unique):
    """Return a topic name that does not exist on the broker yet."""
    return unique("topic")


@pytest.fixture
def group(unique):
    return unique("group")
