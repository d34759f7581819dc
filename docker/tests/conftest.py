"""Fixtures: the image, and unique names."""

import pytest

from compat_tests.harness.names import topic, unique  # noqa: F401 fixtures


def pytest_addoption(parser):
    parser.addoption("--image", required=True, help="the image to test")
    parser.addoption("--spark-image", required=True, help="the image of the Spark job")
    parser.addoption("--run", required=True, help="a label for what this run makes, so that it can be removed")


@pytest.fixture(scope="session")
def image(request):
    return request.config.getoption("--image")


@pytest.fixture(scope="session")
def spark_image(request):
    return request.config.getoption("--spark-image")


@pytest.fixture(scope="session")
def run(request):
    return request.config.getoption("--run")
