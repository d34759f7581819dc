"""Directories that Apache Kafka wrote: kwire reports no fault in them, starts on them, and returns the same data."""

import json
import shutil
import subprocess
import sys

from compat_tests.harness.ports import free_ports
from compat_tests.log_format.comparing import differences, excused, questions_about
from compat_tests.log_format.kafkas_own import PARTITIONS, WritingKafka, write_codecs, write_everything
from compat_tests.log_format.observing import UNCOMMITTED, Observer, observe_all, observer_of
from compat_tests.log_format.taking_over import on_copy_of
from compat_tests.raw.peer import Peer


def observe_as_it_is(observer):
    """Return (questions that follow from the broker's data, the answers)."""
    questions = questions_about({each: observer.all_bytes(each, UNCOMMITTED) for each in PARTITIONS})
    return questions, observe_all(observer, PARTITIONS, questions)


def is_kafkas_own(finding):
    """Return True for a fault of Kafka's own: a kill moved the log start back, and the epochs below it are missing."""
    return "/cut-0/" in finding["path"] and "does not know the start" in finding["what"]


def check(tested, data, seen, home):
    """Check that the directory is sound and that the tested broker returns what Kafka returned."""
    questions, expected = seen
    command = [sys.executable, "-m", "kwire", "log", "verify", "--format", "json", str(data)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [finding for finding in found if finding["is_wrong"] and not is_kafkas_own(finding)] == [], ran.stderr
    with observer_of(on_copy_of(data, tested, home), PARTITIONS) as observer:
        observed = observe_all(observer, PARTITIONS, questions)
    assert differences(excused(observed, expected), expected) == []


def test_directories_of_a_killed_and_of_a_stopped_kafka(tested, tmp_path):
    (tmp_path / "kafka").mkdir()
    kafka = WritingKafka(tmp_path / "kafka", free_ports(1)[0])
    try:
        kafka.start()
        with Peer(kafka.bootstrap) as peer:
            observer = Observer(peer)
            kept = write_everything(kafka.bootstrap, observer)
        kafka.kill()
        del kept
        shutil.copytree(kafka.directory / "data", tmp_path / "killed")
        with observer_of(kafka, PARTITIONS) as observer:
            after_the_kill = observe_as_it_is(observer)
            write_codecs(kafka.bootstrap)
            after_more = observe_as_it_is(observer)
    finally:
        kafka.kill()
    check(tested, tmp_path / "killed", after_the_kill, tmp_path / "on-killed")
    check(tested, kafka.directory / "data", after_more, tmp_path / "on-stopped")
