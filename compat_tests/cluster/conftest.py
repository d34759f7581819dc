"""Fixtures: the tested cluster and an Apache Kafka cluster beside it, one shape at a time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.cluster.sides import ClusterSide
from compat_tests.kafka_tools.comparing import Both
from compat_tests.kafka_tools.conftest import json_file  # noqa: F401 fixture
from compat_tests.kafka_tools.tools import class_archive


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")


class Alive:
    """Running clusters; they stop before other clusters start."""

    def __init__(self):
        self.what = None
        self.clusters = []

    def start(self, kinds, shape, directory):
        if self.what == (kinds, shape):
            return self.clusters
        self.end()
        self.what = (kinds, shape)
        self.clusters = [Cluster(kind, directory(kind), SHAPES[shape]) for kind in kinds]
        with ThreadPoolExecutor(2) as pool:
            for started in [pool.submit(each.start) for each in self.clusters]:
                started.result()
        return self.clusters

    def end(self):
        for each in self.clusters:
            each.end()
        self.what = None


@pytest.fixture(scope="session")
def alive():
    clusters = Alive()
    yield clusters
    clusters.end()


@pytest.fixture(scope="module")
def clusters(alive, tested, shape, tmp_path_factory):
    """Yield the tested cluster and, unless it is Kafka itself, a cluster of Kafka."""
    kinds = ["kwire", "kafka"] if tested == "kwire" else ["kafka"]
    return alive.start(kinds, shape, tmp_path_factory.mktemp)


@pytest.fixture(scope="session")
def archives():
    """Return one archive of loaded Java classes for all modules."""
    return []


@pytest.fixture(scope="module")
def both(clusters, archives, tmp_path_factory):
    if not archives:
        archives.append(class_archive(clusters[0].bootstrap, tmp_path_factory.mktemp("archive")))
    sides = [ClusterSide(each, archives[0]) for each in clusters]
    return Both(sides[0], sides[1] if len(sides) > 1 else None)
