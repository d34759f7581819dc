"""Fixtures: one Spark session and one broker for the whole run, and names that no other test uses."""

import pytest

from compat_tests.harness.brokers import BROKERS, started_broker
from compat_tests.harness.names import topic, unique  # noqa: F401 fixtures
from compat_tests.harness.paths import ROOT
from spark_jobs.pipeline.tables.formats import settings_of_all
from spark_jobs.session import new_session
from spark_jobs.tests.standalone import SETTINGS, StandaloneCluster
from spark_jobs.versions import all_packages, formats


def pytest_addoption(parser):
    parser.addoption("--broker", choices=sorted(BROKERS), default="kwire", help="the broker to start and test")
    parser.addoption("--standalone", action="store_true", help="run tasks on a standalone cluster with one worker")


@pytest.fixture(scope="session")
def placement(request, tmp_path_factory):
    """Settings that say where Spark's tasks run: in threads of this machine, or on a standalone cluster."""
    if not request.config.getoption("--standalone"):
        yield {}
        return
    # The functions of the tests are imported from the checkout.
    cluster = StandaloneCluster(tmp_path_factory.mktemp("spark"), PYTHONPATH=str(ROOT))
    try:
        cluster.start()
        yield {**SETTINGS, "spark.master": cluster.url}
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def spark(placement):
    settings = {
        "spark.databricks.delta.snapshotPartitions": "2",  # the default of 50 is for large tables
        "spark.jars.packages": ",".join(all_packages()),
        **settings_of_all(formats()),
        "spark.sql.streaming.stopTimeout": "30s",
        **placement,
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
