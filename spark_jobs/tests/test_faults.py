"""Campaign "exactly once under faults": two rounds of it, planted bugs that it finds, and its check."""

import json
from collections import Counter

import pytest

from spark_jobs.faults.check import Outputs, Topic, check
from spark_jobs.faults.play import play, stage
from spark_jobs.faults.reading import Found
from spark_jobs.faults.rounds import FAULTS, Brokers, planned
from spark_jobs.faults.stream import Entry, Ledger
from spark_jobs.faults.truth import confirmed, passed_over
from spark_jobs.pipeline.device_events import Kind, Sent

GOOD = [Sent(b"device", json.dumps({"event_id": str(number)}), Kind.COUNTED) for number in range(4)]
ENTRIES = [Entry(0, 10 + number, each) for number, each in enumerate(GOOD)]
EVERYWHERE = frozenset((0, each.offset) for each in ENTRIES)


@pytest.fixture
def on(request, tmp_path):
    """Return a function that plays a round with some faults, on brokers and drivers of one test."""
    stages = []

    def played(seed, *faults, plant=None):
        if not stages:
            context = stage(tmp_path, request.config.getoption("--broker"), plant)
            stages.append((context, context.__enter__()))
        return play(planned(seed, faults), stages[0][1], tmp_path / f"round-{seed}")

    yield played
    for context, _ in stages:
        context.__exit__(None, None, None)


def test_nothing_is_lost_or_repeated_when_the_driver_and_python_workers_are_killed(on):
    for seed, fault in ((1, "python worker killed at its commit"), (2, "driver killed between table and sink")):
        result = on(seed, fault)
        assert result.fired == [fault]
        assert result.findings == []


def test_progress_in_a_transaction_of_its_own_is_found(on):
    findings = []
    for seed in range(1, 6):
        findings += on(seed, "python worker killed at its commit", plant="progress-outside").findings
        if findings:
            break
    assert any("more than once" in each for each in findings)


def test_a_table_that_forgets_the_batch_is_found(on):
    findings = on(1, "driver killed after the table", plant="forgotten-batch").findings
    assert any(each.startswith("raw: ") and "more than once" in each for each in findings)


def test_each_fault_occurs_several_times_in_a_campaign():
    rounds = [planned(seed) for seed in range(1, 101)]
    counted = Counter(each.name for plan in rounds for each in plan.faults)
    assert min(counted[name] for name in FAULTS) >= 4
    assert {plan.table_format for plan in rounds} == {"parquet", "delta", "iceberg"}
    assert all(plan.brokers is Brokers.ONE for plan in (planned(seed, broker="kafka") for seed in range(1, 101)))


def outputs(places, copies=None):
    rows = [(partition, offset, GOOD[offset - 10].text.encode()) for partition, offset in places]
    found = [
        Found(0, number, b"device", b"%d %d %b" % row, {})
        for number, row in enumerate(rows if copies is None else [rows[index] for index in copies])
    ]
    return Outputs({"raw": rows}, found, [], [])


@pytest.mark.parametrize(
    ("topic", "given", "found"),
    [
        ({}, outputs(sorted(EVERYWHERE)), []),
        ({}, outputs([(0, 10), (0, 11), (0, 12)]), ["raw: 1 missing", "copies: 1 missing"]),
        ({}, outputs([*sorted(EVERYWHERE), (0, 13)]), ["raw: 1 more than once", "copies: 1 more than once"]),
        ({}, outputs(sorted(EVERYWHERE), copies=(1, 0, 2, 3)), ["copies: 1 keys out of order"]),
        ({"left": frozenset()}, outputs([(0, 12)]), []),
        ({"left": frozenset()}, outputs([(0, 12), (0, 12)]), ["raw: 1 more than once", "copies: 1 more than once"]),
        (
            {"left": frozenset(), "read": {"raw": {0: 12}}},
            outputs([(0, 10), (0, 12)]),
            ["raw: 1 missing"],
        ),
        ({"skipped": {"raw": {0: 12}, "copies": {0: 12}}}, outputs([(0, 12), (0, 13)]), []),
        ({"skipped": {"raw": {0: 13}}}, outputs([(0, 12), (0, 13)]), ["raw: 1 more than once", "copies: 2 missing"]),
    ],
)
def test_the_check_finds_what_is_wrong(topic, given, found):
    settings = {"left": EVERYWHERE, "read": {}} | topic
    said = check([Topic(Ledger(list(ENTRIES)), **settings)], ["raw"], given)
    assert len(said) == len(found)
    assert all(each.startswith(begin) for each, begin in zip(said, found, strict=True))


def test_the_input_must_have_what_was_committed():
    stored = [Found(0, 20 + number, each.key, each.text.encode(), {}) for number, each in enumerate(GOOD)]
    ledger = Ledger([Entry(0, -1, each) for each in GOOD])
    assert confirmed(ledger, stored, may_lack=False) == []
    assert [each.offset for each in ledger.entries] == [20, 21, 22, 23]
    assert len(confirmed(ledger, stored[1:], may_lack=False)) == 1
    assert confirmed(ledger, stored[1:], may_lack=True) == []
    assert len(confirmed(ledger, [stored[0]._replace(offset=7)], may_lack=True)) == 1


def test_a_topic_made_anew_is_read_from_the_old_offset_or_its_own_end():
    before = [{0: 50, 1: 40}, {0: 100, 1: 80}]
    assert passed_over(before, before) == {0: 100, 1: 80}
    assert passed_over(before, [*before, {0: 30, 1: 90}]) == {0: 30, 1: 80}
