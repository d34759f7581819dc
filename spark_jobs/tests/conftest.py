"""Fixtures: one Spark session and one broker for the whole run, and names that no other test uses."""

import pytest

from compat_tests.harness.brokers import BROKERS, started_broker
from compat_tests.harness.names import topic, unique  # noqa: F401 fixtures
from spark_jobs.session import new_session
from spark_jobs.versions import all_packages

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


def pytest_addoption(parser):
    parser.addoption("--broker", choices=sorted(BROKERS), default="kwire", help="the broker to start and test")


@pytest.fixture(scope="session")
def spark():
    settings = {
        "spark.jars.packages": ",".join(all_packages()),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.streaming.stopTimeout": "30s",
    }
    session = new_session("kwire-tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    with started_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def bootstrap(broker):
    return broker.bootstrap


@pytest.fixture(autouse=True)
def no_stream_is_left(spark):
    """Stop queries that a failed test left running, so that they do not disturb the next test."""
    yield
    for query in spark.streams.active:
        query.stop()
