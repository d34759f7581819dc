"""The events job: exact counts, dead letters, a stop and a second run."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from kafka import TopicPartition
from pyspark.errors import StreamingQueryException

from compat_tests.harness.paths import ROOT
from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import consumer, producer, read_from, send_all
from spark_jobs.events_job import Options, start, wait
from spark_jobs.sample_events import iso_time, sample_events
from spark_jobs.tests.support import SECONDS, create_topic, sent

#: These tests start a second Spark beside the session's, on a machine with two cores.
JOB_SECONDS = 150
NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


class Never:
    """Stop event that is never set."""

    def wait(self, seconds):
        return False


def event(number, kind, second, amount=0.0):
    fields = {"id": f"e-{number}", "kind": kind, "time": iso_time(NOON + second), "user": "u", "amount": amount}
    return Record(value=json.dumps(fields).encode(), key=b"u", headers=(("trace", b"%d" % number),))


def count(minute, kind, number, amount=0.0):
    start, end = (iso_time(NOON + 60 * each) for each in (minute, minute + 1))
    return {"window_start": start, "window_end": end, "kind": kind, "count": number, "amount": amount}


FIRST = [
    event(1, "view", 0),
    event(2, "view", 59.999),
    event(3, "purchase", 10, 19.5),
    event(4, "purchase", 20, 0.25),
    event(5, "view", 60),
    event(6, "view", 200),  # the watermark is 170 from here on
]
FIRST_COUNTS = [count(0, "purchase", 2, 19.75), count(0, "view", 2), count(1, "view", 1)]

SECOND = [
    event(7, "view", 100),  # too late: the watermark has passed its window
    event(8, "cart", 190),  # late, but its window is still open
    event(9, "view", 400),
]
SECOND_COUNTS = [count(3, "cart", 1), count(3, "view", 1)]


@pytest.fixture
def options(bootstrap, unique, tmp_path):
    names = {role: unique(role) for role in ("input", "output", "dead_letters")}
    for name in names.values():
        create_topic(bootstrap, name)
    places = {"parquet": tmp_path / "counts", "checkpoint": tmp_path / "checkpoint"}
    return Options(bootstrap=bootstrap, **names, **places, once=True)


def run(spark, options):
    wait(start(spark, options), Never())


def files(spark, options):
    """Return the counts in Parquet, in the format of the messages."""
    table = spark.read.parquet(str(options.parquet)).drop("batch").toJSON().collect()
    return in_order(json.loads(row) for row in table)


def messages(options, number):
    """Return the counts in the output topic."""
    return in_order(json.loads(each.value) for each in read_from(options.bootstrap, options.output, number))


def in_order(counts):
    return sorted(counts, key=lambda each: (each["window_start"], each["kind"]))


@pytest.mark.short
def test_windows_are_counted_once_over_two_runs(spark, options):
    sent(options.bootstrap, options.input, FIRST)
    run(spark, options)
    assert files(spark, options) == FIRST_COUNTS
    sent(options.bootstrap, options.input, SECOND)
    run(spark, options)
    run(spark, options)
    assert files(spark, options) == FIRST_COUNTS + SECOND_COUNTS
    assert messages(options, 5) == FIRST_COUNTS + SECOND_COUNTS


@pytest.mark.short
def test_events_of_committed_transactions_are_counted_only(spark, options, unique):
    with producer(options.bootstrap, transactional_id=unique("id")) as client:
        client.init_transactions()
        for events in (FIRST, SECOND):
            client.begin_transaction()
            send_all(client, options.input, [*events, Record(value=b"not an event either")])
            client.abort_transaction()
            run(spark, options)
            client.begin_transaction()
            send_all(client, options.input, events)
            client.commit_transaction()
            run(spark, options)
    assert files(spark, options) == FIRST_COUNTS + SECOND_COUNTS
    assert messages(options, 5) == FIRST_COUNTS + SECOND_COUNTS
    with consumer(options.bootstrap, options.dead_letters) as reader:
        letters = TopicPartition(options.dead_letters, 0)
        assert reader.end_offsets([letters]) == {letters: 0}


def test_invalid_events_go_unchanged_to_the_dead_letter_topic(spark, options):
    bad = [
        (Record(value=b"\xff\xfe not json", key=b"a", headers=(("trace", b"1"),)), b"not an event in JSON"),
        (Record(value=b'{"id": "e", "kind": "view", "time": "yesterday"}'), b"not an event in JSON"),
        (Record(value=b'{"id": "e", "kind": "view"}', key=b"c"), b"no time"),
        (Record(value=b'{"kind": "view", "time": "2026-01-01T12:00:00Z"}'), b"no id"),
        (Record(value=None, key=b"d"), b"no value"),
        (Record(value=b""), b"not an event in JSON"),
        (Record(value=b"[]"), b"not an event in JSON"),
    ]
    good = event(1, "view", 0)
    sent(options.bootstrap, options.input, [good, *(record for record, _ in bad), good])
    run(spark, options)
    letters = read_from(options.bootstrap, options.dead_letters, len(bad))
    for offset, (letter, (record, reason)) in enumerate(zip(letters, bad, strict=True), start=1):
        origin = [
            ("reason", reason),
            ("topic", options.input.encode()),
            ("partition", b"0"),
            ("offset", b"%d" % offset),
        ]
        assert (letter.key, letter.value) == (record.key, record.value)
        assert list(letter.headers) == [*record.headers, *origin]


def test_a_job_without_its_topic_fails(spark, options):
    with pytest.raises(StreamingQueryException, match=r"UnknownTopicOrPartition|does not (exist|host)"):
        run(spark, replace(options, input="no-such-topic"))


def command(options):
    return [
        *(sys.executable, "-m", "spark_jobs.events_job", "--bootstrap", options.bootstrap),
        *("--input", options.input, "--output", options.output, "--dead-letters", options.dead_letters),
        *("--parquet", str(options.parquet), "--checkpoint", str(options.checkpoint), "--trigger", "1 second"),
    ]


def test_the_command_stops_on_a_signal_and_continues_later(spark, options, tmp_path):
    output = tmp_path / "output.txt"
    sent(options.bootstrap, options.input, FIRST)
    with output.open("wb") as said, subprocess.Popen(command(options), cwd=ROOT, stdout=said, stderr=said) as job:
        try:
            eventually(lambda: len(files(spark, options)) == len(FIRST_COUNTS), "the first counts", JOB_SECONDS)
            job.send_signal(signal.SIGTERM)
            job.wait(SECONDS)
        finally:
            job.kill()
            sys.stdout.write(output.read_text())
    assert job.returncode == 0
    assert "stopped" in output.read_text()
    sent(options.bootstrap, options.input, SECOND)
    run(spark, options)
    assert files(spark, options) == FIRST_COUNTS + SECOND_COUNTS


def test_sample_events_are_the_same_for_the_same_seed():
    def sample(seed):
        return list(sample_events(500, end=NOON, minutes=10, bad_every=100, seed=seed))

    first = sample(1)
    assert first == sample(1)
    assert first != sample(2)
    assert len(first) == 500
    times = [json.loads(value)["time"] for number, (_, value) in enumerate(first, start=1) if number % 100]
    assert iso_time(NOON - 10 * 60 - 20) <= min(times)
    assert max(times) < iso_time(NOON)
