"""Kafka Streams with exactly_once_v2 in both protocols: despite kills, each word is counted exactly once."""

import random
import shutil
from collections import Counter

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.confluent_kafka_client.transactional import read_to_end, written_so_far
from compat_tests.harness.payloads import Record
from compat_tests.harness.transactions import PARTITIONS, places_of
from compat_tests.harness.waiting import eventually
from compat_tests.streams.word_count import WordCount

LINES = 1500
WORDS = [f"word{number}" for number in range(23)]
SECONDS_MAX = 120

pytestmark = pytest.mark.restart


@pytest.fixture(params=["classic", "streams"])
def application(broker, unique, tmp_path, request):
    """Start a word count between two topics with several partitions."""
    for role in ("input", "output"):
        create_topic(broker.bootstrap, unique(role), partitions=PARTITIONS)
    topics = unique("input"), unique("output")
    made = WordCount(broker.bootstrap, unique("application"), *topics, request.param, scratch=tmp_path)
    try:
        yield made
    finally:
        made.kill()


def send_lines(bootstrap, topic, seed, counted):
    """Send lines of words to each partition; add the words to the expected counts."""
    random_source = random.Random(seed)
    for partition in range(PARTITIONS):
        lines = [random_source.choices(WORDS, k=5) for _ in range(LINES)]
        records = [Record(key=b"k", value=" ".join(line).encode()) for line in lines]
        offsets_of(send_all(producer(bootstrap), topic, records, partition=partition))
        for line in lines:
            counted.update(line)


def counts_in(bootstrap, topic):
    """Return the committed counts of each word, in the order of its partition."""
    counts = {}
    for message in read_to_end(bootstrap, places_of(topic)):
        counts.setdefault(message.key().decode(), []).append(int(message.value()))
    return counts


def wait_for_progress(bootstrap, topic, counted, share):
    """Wait until this share of all words has been counted, in committed or open transactions."""
    enough = share * counted.total()
    eventually(lambda: written_so_far(bootstrap, places_of(topic)) >= enough, f"{enough} counts", SECONDS_MAX)


def assert_counted_once(application, bootstrap, topic, counted):
    """Wait for all counts, close the application, and check that each count is there once, in order."""

    def all_counted():
        return sum(map(len, counts_in(bootstrap, topic).values())) >= counted.total()

    eventually(all_counted, f"{counted.total()} counts", SECONDS_MAX)
    application.stop()
    assert counts_in(bootstrap, topic) == {word: list(range(1, count + 1)) for word, count in counted.items()}


@pytest.mark.short
def test_each_word_is_counted_once_without_trouble(broker, application, unique):
    counted = Counter()
    application.start()
    send_lines(broker.bootstrap, unique("input"), 1, counted)
    assert_counted_once(application, broker.bootstrap, unique("output"), counted)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_each_word_is_counted_once_through_restarts_of_the_broker(broker, application, unique, clean):
    counted = Counter()
    application.start()
    for seed in range(3):
        send_lines(broker.bootstrap, unique("input"), seed, counted)
        wait_for_progress(broker.bootstrap, unique("output"), counted, 0.3 * (seed + 1))
        broker.restart(clean=clean)
    assert_counted_once(application, broker.bootstrap, unique("output"), counted)


@pytest.mark.parametrize("state", ["kept", "lost"])
def test_each_word_is_counted_once_through_kills_of_the_application(broker, application, unique, state):
    counted = Counter()
    for seed in range(2):
        application.start()
        send_lines(broker.bootstrap, unique("input"), seed, counted)
        wait_for_progress(broker.bootstrap, unique("output"), counted, 0.3 * (seed + 1))
        application.kill()
        if state == "lost":
            shutil.rmtree(application.scratch / "state")
    application.start()
    assert_counted_once(application, broker.bootstrap, unique("output"), counted)
