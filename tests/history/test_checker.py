"""Anomalies: each is found in histories that have it, and not in similar ones: tests/history/cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.checker import check
from tests.history.findings import ALLOWED, BAD, KNOWN, REPORTED
from tests.history.operations import BrokenHistoryError
from tests.history.text import history

CASES = Path(__file__).parent / "cases"
FINE = "fine"
AT_LEAST = 5


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Yield (anomaly, verdict, sentence, history)."""
    for path in sorted(CASES.glob("*.txt")):
        for section in path.read_text().split("## ")[1:]:
            heading, _, text = section.partition("\n")
            verdict, _, sentence = heading.partition(": ")
            yield path.stem, verdict, sentence, text


ALL = list(cases())
VERDICTS = {
    anomaly: {verdict for name, verdict, _, _ in ALL if name == anomaly and verdict != FINE} for anomaly, *_ in ALL
}


def found(anomaly: str, text: str) -> set[str]:
    """Return the verdicts of the findings with this name."""
    findings = check(history(text)).findings
    return {finding.verdict for finding in findings if finding.name.lower().replace(" ", "-") == anomaly}


@pytest.mark.parametrize(("anomaly", "verdict", "text"), [pytest.param(a, v, t, id=f"{a}: {s}") for a, v, s, t in ALL])
def test_case(anomaly: str, verdict: str, text: str) -> None:
    if verdict == FINE:
        assert not found(anomaly, text) & VERDICTS[anomaly]
    else:
        assert verdict in found(anomaly, text)


def test_each_anomaly_has_enough_cases() -> None:
    assert len(VERDICTS) == 22
    for anomaly, verdicts in VERDICTS.items():
        assert verdicts <= {BAD, ALLOWED, REPORTED}
        told = [verdict for name, verdict, _, _ in ALL if name == anomaly]
        assert told.count(FINE) >= AT_LEAST, anomaly
        assert len(told) - told.count(FINE) >= AT_LEAST, anomaly


A_HELD_COMMIT = """
    1-2 p begin T1 of payments {protocol}
    2-3 p send a=x 0 in T1
    3- p commit T1 info
    4-12 - hold payments
    5-6 p commit T1
    7-8 p begin T2 of {second} {protocol}
    9-10 p send a=y 2 in T2
    13-14 p send a=z 4 in T2
    15-16 p abort T2
    17-18 r poll a:0=x a:2=y
    19-20 r final a 6
"""


def verdicts_of_a_held_commit(protocol: str, second: str) -> set[str]:
    report = check(history(A_HELD_COMMIT.format(protocol=protocol, second=second)))
    return {finding.verdict for finding in report.findings if finding.name in {"aborted read", "torn transaction"}}


def test_what_a_held_commit_does_to_the_next_transaction_is_known_of_v1() -> None:
    assert verdicts_of_a_held_commit("v1", "payments") == {KNOWN}


def test_a_transaction_with_its_own_epoch_has_no_such_excuse() -> None:
    assert verdicts_of_a_held_commit("v2", "payments") == {BAD}


def test_nor_has_a_transaction_of_somebody_else() -> None:
    assert verdicts_of_a_held_commit("v1", "orders") == {BAD}


A_HELD_COMMIT_OF_OFFSETS = """
    1-2 p begin T1 of payments v1
    2-3 p store g a=5 in T1
    3- p commit T1 info
    4-12 - hold {held}
    5-6 p commit T1
    7-8 p begin T2 of payments v1
    9-10 p store g a=8 in T2
    15-16 p abort T2
    17-18 q restore g a=8
"""


@pytest.mark.parametrize(("held", "verdict"), [("payments", KNOWN), ("orders", BAD)])
def test_an_offset_of_an_aborted_transaction_is_excused_as_its_records_are(held: str, verdict: str) -> None:
    report = check(history(A_HELD_COMMIT_OF_OFFSETS.format(held=held)))
    assert {finding.verdict for finding in report.findings if finding.name == "rewound commit"} == {verdict}


def test_nor_has_the_transaction_that_the_held_request_was_meant_for() -> None:
    torn = A_HELD_COMMIT.format(protocol="v1", second="payments").replace("p send a=x 0 in T1", "p send a=x 1 in T1")
    report = check(history(torn + "2.5-3 p send a=w 0 in T1"))
    found = {(finding.name, finding.verdict) for finding in report.findings if finding.transactions == ("T1",)}
    assert ("lost write", BAD) in found
    assert ("torn transaction", BAD) in found


def test_a_value_that_is_sent_twice_is_no_history() -> None:
    with pytest.raises(BrokenHistoryError):
        check(history("p send a=x 0\np send a=x 1"))
