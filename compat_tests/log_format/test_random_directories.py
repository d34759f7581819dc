"""Random directories of kwire: Kafka's tool reports no fault in them, and Kafka returns the same data as kwire."""

import random

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.log_format.comparing import (
    differences,
    excused,
    questions_about,
    starts_inside,
    wrong_answers,
)
from compat_tests.log_format.dumping import (
    complaints,
    files_of,
    gaps,
    not_of_empty_batches,
    rows_of_kafka,
    rows_of_kwire,
    run_tool,
)
from compat_tests.log_format.observing import UNCOMMITTED, observe_all, observer_of
from compat_tests.log_format.random_data import now_ms
from compat_tests.log_format.taking_over import on_copy_of
from compat_tests.raw.peer import Peer
from kwire.protocol.compression import Codec
from kwire.protocol.records import Record, encode_batch
from tests.log.random_directories import LAST_EPOCH

BATCHES_BEFORE_THE_KILL = 4


@pytest.mark.short
def test_dumplogsegments_finds_no_errors_and_matches_kwire_log_dump(made):
    files = files_of(made.clean, made.partitions)
    output, errors = run_tool(made.clean, files, "--deep-iteration", "--print-data-log")
    ours, theirs = rows_of_kwire(made.clean, made.partitions), rows_of_kafka(output)
    assert set(files) == theirs.keys()
    assert [file for file in files if theirs[file] != ours.get(file, [])] == []
    assert sum(len(rows) for rows in theirs.values()) > 100 * len(made.partitions)
    found, others = complaints(errors, made.clean)
    assert found == gaps(ours)
    assert not_of_empty_batches(others, ours) == []


@pytest.mark.short
@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check"])
def test_the_checks_of_indexes_pass(made, option):
    indexes = [file for file in files_of(made.clean, made.partitions) if file.endswith((".index", ".timeindex"))]
    output, errors = run_tool(made.clean, indexes, option)
    assert not_of_empty_batches(errors.splitlines(), rows_of_kwire(made.clean, made.partitions)) == []
    reported = {line for line in output.splitlines() if not line.startswith("Dumping ")}
    assert {line.partition(" ")[2] for line in reported} <= {"is empty.", "passed sanity check."}


def compare(tested, data, made, home, then=lambda observer: {}):
    """Start both brokers on copies of the data; check that they agree and that answers by timestamp are correct."""
    observed, extra, homes = [], [], []
    questions = None
    for side, name in (("tested", tested), ("reference", "kafka")):
        homes.append(home / side)
        with observer_of(on_copy_of(data, name, homes[-1]), made.partitions) as observer:
            if questions is None:
                served = {each: observer.all_bytes(each, UNCOMMITTED) for each in made.partitions}
                questions = questions_about(served, LAST_EPOCH)
            observed.append(observe_all(observer, made.partitions, questions))
            extra.append(then(observer))
    ours, theirs = observed
    inside = starts_inside(data)
    assert wrong_answers(ours, is_kafka=tested == "kafka", inside=inside) == []
    assert wrong_answers(theirs, is_kafka=True, inside=inside) == []
    assert differences(excused(ours, theirs), theirs) == []
    assert differences(*extra) == []
    return homes


@pytest.mark.short
def test_after_a_clean_stop_both_serve_the_same_and_delete_alike(made, tested, tmp_path):
    def delete(observer):
        """Delete records up to an offset inside a batch, up to the start, beyond the end, and all."""
        answers = {}
        for number, partition in enumerate(made.partitions):
            start, end = (observer.offset_at(partition, edge)[1] for edge in (-2, -1))
            somewhere = random.Random(number).randint(start, end)
            wanted = {"somewhere": somewhere, "nothing": start, "too much": end + 1}
            if number % 4 == 0:
                wanted["all"] = -1
            answers[partition] = {
                f"deleted {what}": observer.delete_records(partition, offset) for what, offset in wanted.items()
            }
        return answers

    compare(tested, made.clean, made, tmp_path, delete)


@pytest.mark.short
def test_after_a_crash_both_recover_the_same(made, tested, tmp_path):
    ours, theirs = compare(tested, made.crashed, made, tmp_path)
    ours, theirs = (rows_of_kwire(home / "data", made.partitions) for home in (ours, theirs))
    assert [
        file for file in sorted(ours.keys() & theirs.keys()) if unordered(file, ours) != unordered(file, theirs)
    ] == []
    # During recovery Kafka removes data before the log start, and soon after that segments of compacted topics.
    starts = {str(partition): start for partition, start in starts_inside(made.crashed).items()}
    for file in ours.keys() ^ theirs.keys():
        partition, name = file.split("/")
        first_segment = min(made.crashed.joinpath(partition).glob("*.log")).stem
        assert int(name.partition(".")[0]) <= max(starts.get(partition, 0), int(first_segment)), file


def test_a_directory_recovered_by_one_broker_is_clean_for_the_other(made, tested, tmp_path):
    """After a clean stop the other broker scans nothing, so the files that recovery wrote must be correct."""
    with observer_of(on_copy_of(made.crashed, tested, tmp_path / "recovered"), made.partitions):
        pass
    compare(tested, tmp_path / "recovered" / "data", made, tmp_path)


def unordered(file, rows):
    """Sort the producers of a snapshot, which come in the order of a hash table."""
    return sorted(rows[file]) if file.endswith(".snapshot") else rows[file]


def test_after_a_kill_both_serve_what_was_acknowledged(made, tested, tmp_path):
    broker = on_copy_of(made.clean, tested, tmp_path / "killed")
    try:
        broker.start()
        with Peer(broker.bootstrap) as peer:
            for number, partition in enumerate(made.partitions):
                random_source = random.Random(number)
                for at in range(BATCHES_BEFORE_THE_KILL):
                    batch = some_batch(random_source, at)
                    eventually(lambda: is_stored(peer, partition, batch), "the broker to take a batch")  # noqa: B023
    finally:
        broker.kill()
    compare(tested, tmp_path / "killed" / "data", made, tmp_path)


def is_stored(peer, partition, batch):
    """Return True if the batch is stored. Kafka rejects it until replicas are in sync; a retry stores no duplicate."""
    return peer.produce(partition.topic, batch, partition=partition.index).error_code == 0


def some_batch(random_source, sequence):
    """Return a batch of one idempotent producer, with records of the last hour."""
    timestamp = now_ms() - random_source.randrange(3_600_000)
    return encode_batch(
        [Record(key=b"%d" % sequence, value=random_source.randbytes(30), timestamp=timestamp)],
        codec=random_source.choice(list(Codec)),
        producer_id=7000,
        producer_epoch=0,
        base_sequence=sequence,
    )
