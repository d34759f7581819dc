"""Journals: read back as they were written, also incomplete ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.checker import check
from tests.history.journal import Journal
from tests.history.operations import FAIL, INFO, NEVER, OK, BrokenHistoryError, Own, Poll, Send, operations, read


def test_a_written_journal_is_read_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "p.jsonl")
    sent = journal.invoke("p", "send", key="a", value="x", transaction="T1")
    rejected = journal.invoke("p", "send", key="a", value="y")
    polled = journal.invoke("r", "poll", level="committed", mode="assign")
    polled(OK, records=[["a", 3, "x"]])
    rejected(FAIL, error="TOPIC_AUTHORIZATION_FAILED")
    sent(OK, offset=3)
    journal.close()
    first, second, poll = read(tmp_path / "p.jsonl")
    assert isinstance(first, Send)
    assert isinstance(poll, Poll)
    assert (first.transaction, first.offset, first.outcome) == ("T1", 3, OK)
    assert second.outcome == FAIL
    assert poll.records == [("a", 3, "x")]
    assert first.invoked < second.invoked < poll.invoked < poll.completed < second.completed < first.completed


def test_an_operation_without_completion_stays_indeterminate(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "p.jsonl")
    journal.invoke("p", "send", key="a", value="x")
    journal.invoke("p", "send", key="a", value="y")(INFO, error="timed out")
    journal.close()
    assert [(each.outcome, each.completed) for each in read(tmp_path / "p.jsonl")] == [(INFO, NEVER)] * 2


def test_the_cut_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "p.jsonl")
    journal.note("p", "begin", transaction="T1", transactional_id="t", protocol="v2")
    journal.close()
    with (tmp_path / "p.jsonl").open("a") as file:
        file.write('{"type": "invoke", "proc')
    assert len(read(tmp_path / "p.jsonl")) == 1


def test_a_lost_partition_was_owned_until_it_was_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "m.jsonl")
    journal.invoke("m", "own", group="g", generation=4, keys=["a"])(INFO)
    journal.close()
    (own,) = read(tmp_path / "m.jsonl")
    assert isinstance(own, Own)
    assert own.completed < NEVER


def test_several_journals_are_one_history(tmp_path: Path) -> None:
    for process in ("p", "q"):
        journal = Journal(tmp_path / f"{process}.jsonl")
        journal.invoke(process, "send", key="a", value=process)(OK, offset=0)
        journal.close()
    report = check(read(*tmp_path.glob("*.jsonl")))
    assert [finding.name for finding in report.bad] == ["inconsistent offsets"]
    assert report.operations == {OK: 2}


@pytest.mark.parametrize(
    "lines",
    [
        ['{"type": "ok", "process": "p", "op": 0, "time": 1}'],
        ['{"type": "invoke", "process": "p", "op": 0, "time": 1, "f": "healed"}'] * 2,
    ],
)
def test_lines_that_do_not_pair_are_rejected(lines: list[str]) -> None:
    with pytest.raises(BrokenHistoryError):
        operations(lines)
