"""Fixtures: data directories with random partitions, one after a clean stop and one after a kill."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.harness.brokers import new_broker
from compat_tests.log_format.random_data import Partition, create_topics, fill, raise_leader_epochs, random_partitions

SEED = 20_261_122
WHOLE_COUNT, SHORT_COUNT = 100, 10
STEPS, STEPS_MORE = 70, 35


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Directories and their contents."""

    clean: Path
    crashed: Path
    partitions: list[Partition]


@pytest.fixture(scope="session")
def tested(request):
    """Return the broker under test by name. Kafka is compared with Kafka: differences are then faults of tests."""
    return request.config.getoption("--broker")


@pytest.fixture(scope="session")
def count(request, tested):
    """Return the number of random directories; fewer are enough to compare Kafka with itself."""
    short = request.config.getoption("markexpr") == "short" or tested == "kafka"
    return SHORT_COUNT if short else WHOLE_COUNT


@pytest.fixture(scope="session")
def made(tested, count, tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    partitions = random_partitions(count)
    broker = new_broker(tested, home)
    try:
        broker.start()
        topic_ids = create_topics(broker, partitions)
        broker.stop()
    finally:
        broker.kill()
    clean, crashed = home / "data", home / "crashed"
    raise_leader_epochs(clean, topic_ids, partitions)
    fill(clean, partitions, seed=SEED, steps=STEPS, clean=True)
    shutil.copytree(clean, crashed)
    fill(crashed, partitions, seed=SEED, steps=STEPS_MORE, clean=False)
    return Made(clean=clean, crashed=crashed, partitions=partitions)
