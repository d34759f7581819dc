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
def test_each_case_has_its_verdict(anomaly: str, verdict: str, text: str) -> None:
    if verdict == FINE:
        assert not found(anomaly, text) & VERDICTS[anomaly]
    else:
        assert verdict in found(anomaly, text)


def test_each_anomaly_has_enough_cases() -> None:
    assert len(VERDICTS) == 22
    for anomaly, verdicts in VERDICTS.items():
        assert verdicts <= {BAD, ALLOWED, REPORTED}
        reported = [verdict for name, verdict, _, _ in ALL if name == anomaly]
        assert reported.count(FINE) >= AT_LEAST, anomaly
        assert len(reported) - reported.count(FINE) >= AT_LEAST, anomaly


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


def test_a_delayed_commit_of_transaction_v1_is_a_known_anomaly() -> None:
    assert verdicts_of_a_held_commit("v1", "payments") == {KNOWN}


def test_a_delayed_commit_of_transaction_v2_is_a_failure() -> None:
    assert verdicts_of_a_held_commit("v2", "payments") == {BAD}


def test_a_delayed_commit_does_not_excuse_another_transactional_id() -> None:
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
def test_a_delayed_commit_excuses_the_offsets_of_an_aborted_transaction(held: str, verdict: str) -> None:
    report = check(history(A_HELD_COMMIT_OF_OFFSETS.format(held=held)))
    assert {finding.verdict for finding in report.findings if finding.name == "rewound commit"} == {verdict}


def test_a_delayed_commit_does_not_excuse_its_own_transaction() -> None:
    torn = A_HELD_COMMIT.format(protocol="v1", second="payments").replace("p send a=x 0 in T1", "p send a=x 1 in T1")
    report = check(history(torn + "2.5-3 p send a=w 0 in T1"))
    found = {(finding.name, finding.verdict) for finding in report.findings if finding.transactions == ("T1",)}
    assert ("lost write", BAD) in found
    assert ("torn transaction", BAD) in found


def test_a_value_that_is_sent_twice_is_rejected() -> None:
    with pytest.raises(BrokenHistoryError):
        check(history("p send a=x 0\np send a=x 1"))
