"""The row `starvation`: how its client counts responses and latencies, and how the figures decide about success."""

from __future__ import annotations

import importlib
import math
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

attacker: Any = importlib.import_module("compat_tests.starvation.attacker")  # untyped
judging: Any = importlib.import_module("compat_tests.starvation.judging")
evidence: Any = importlib.import_module("compat_tests.starvation.evidence")
measuring: Any = importlib.import_module("compat_tests.starvation.measuring")
attacks: Any = importlib.import_module("compat_tests.starvation.attacks")
victim: Any = importlib.import_module("compat_tests.starvation.victim")

ATTACK = attacks.ATTACKS[0]


def figures(p99: float = 1.0, **others: Any) -> dict[str, Any]:
    latency = {"count": 100, "p50": 1.0, "p99": p99, "max": p99}
    well = {"sent_bytes": 1, "closed": 0, "errors": [], "leader_changes": [], "fenced": [], "held": ""}
    return {**well, "recovery_seconds": 0.3, "heartbeat_ms": latency, "produce_ms": latency, **others}


class Script:
    """Cases whose runs have the given figures."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        self.runs = list(runs)

    def run(self, attack: Any, connections: int) -> dict[str, Any]:
        return self.runs.pop(0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"closed": 1},
        {"errors": ["Heartbeats: error 27"]},
        {"leader_changes": ["t-0: (1, 0) to (1, 1)"]},
        {"fenced": [2]},
        {"recovery_seconds": None},
        {"p99": 50.0},
    ],
)
def test_each_bad_figure_is_one_complaint_against_kwire(wrong: dict[str, Any]) -> None:
    judge = judging.Judge("kwire")
    assert judge.complaints(ATTACK, figures()) == []
    assert len(judge.complaints(ATTACK, figures(**wrong))) == 1
    assert judging.Judge("kafka").complaints(ATTACK, figures(**wrong)) == []


def test_a_control_run_without_attack_traffic_is_a_complaint() -> None:
    assert judging.Judge("kafka").complaints(ATTACK, figures(sent_bytes=0))


def test_a_slow_case_is_repeated_and_its_median_counts() -> None:
    slow_once = Script(figures(90.0), figures(10.0), figures(20.0), figures(1.0))
    assert judging.Judge("kwire").figures(slow_once, ATTACK, 1)["heartbeat_ms"]["p99"] == 20.0
    assert len(slow_once.runs) == 1
    slow_twice = Script(figures(90.0), figures(10.0), figures(60.0))
    assert judging.Judge("kwire").figures(slow_twice, ATTACK, 1)["heartbeat_ms"]["p99"] == 60.0
    quick = Script(figures(10.0), figures(90.0))
    assert judging.Judge("kwire").figures(quick, ATTACK, 1)["runs"] == 1


def test_a_case_that_noise_does_not_explain_is_not_repeated() -> None:
    slow = Script(figures(judging.NOISE_FACTOR * judging.BOUND_MS), figures(1.0))
    assert judging.Judge("kwire").figures(slow, ATTACK, 1)["runs"] == 1


def test_the_page_has_both_brokers_side_by_side() -> None:
    row = {"part": "One broker", "commit": "abc", "moment": "2026-01-01 00:00", "attack": "A", "connections": 1}
    row |= {"request_bytes": 10, "answers": 5, "problems": [], **figures(60.0)}
    kafka = {**row, **figures(7.0), "problems": ["an error"]}
    text = evidence.page({"kwire": {"One broker: A 1": row}, "kafka": {"One broker: A 1": kafka}})
    (line,) = [line for line in text.splitlines() if line.startswith("| A |")]
    ours, theirs = ["0.0", "5", *["1.0 / 60.0 / 60.0"] * 2, ""], ["0.0", "5", *["1.0 / 7.0 / 7.0"] * 2, "an error"]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["A", "1", "10", *ours, *theirs]
    assert "kwire: 0 of 1 cases" in text
    assert "kafka: 1 of 1 cases" in text


def test_an_error_counts_in_whichever_run_it_was() -> None:
    runs = Script(figures(90.0, fenced=[1]), figures(10.0), figures(20.0))
    judge = judging.Judge("kwire")
    assert judge.problems(ATTACK, judge.figures(runs, ATTACK, 1)) == ["brokers [1] are fenced"]


def test_a_broker_that_ended_has_no_latency_and_counts() -> None:
    ended = {**measuring.NOT_MEASURED, "errors": ["the broker ended with status 1"], "held": ""}
    assert judging.p99_ms(ended) == math.inf
    assert judging.Judge("kwire").problems(ATTACK, ended)[0] == "the broker ended with status 1"


def test_a_new_leader_epoch_counts_as_a_leader_change() -> None:
    before = {("a", 0): (1, 0), ("a", 1): (1, 0), ("gone", 0): (1, 0)}
    assert measuring.changes(before, {("a", 0): (1, 0), ("a", 1): (1, 0), ("new", 0): (1, 0)}) == []
    assert len(measuring.changes(before, {("a", 0): (1, 1)})) == 2


def test_percentiles() -> None:
    assert measuring.percentiles(range(1, 201)) == {"count": 200, "p50": 100.5, "p99": 199, "max": 200}


def test_the_longest_hold_of_the_log() -> None:
    text = f"a\nx {measuring.HELD}90 ms: f\ny {measuring.HELD}120 ms: g{measuring.LOGGER}\n"
    assert measuring.longest_hold(text) == "120 ms: g"
    assert measuring.longest_hold("nothing") == ""


def test_requests_that_were_due_while_one_waited_count() -> None:
    calls = victim.Calls.__new__(victim.Calls)
    calls.due, calls.samples_ms, calls.latest_ms = 100.0, [], []
    calls.count(100.025)
    assert [round(each) for each in calls.samples_ms] == [25, 15, 5]
    assert calls.due == pytest.approx(100.03)


def test_the_attacker_counts_whole_answers(tmp_path: Path) -> None:
    request, answer = b"\0\0\0\2ab", b"\0\0\0\3abc"
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_in_parts, args=(server, request, answer * 2 + answer[:5]), daemon=True).start()
        found = attacker.attack(server.getsockname(), memoryview(request), 1, 0.2)
    assert found["answers"] == 2
    assert found["answer_bytes"] == 2 * len(answer) + 5
    assert found["sent_bytes"] >= len(request)
    assert found["closed"] == 0


def answer_in_parts(server: socket.socket, request: bytes, answer: bytes) -> None:
    """Read requests until the client disconnects, and send the response one byte at a time."""
    accepted, _ = server.accept()
    with accepted:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in answer:
            accepted.recv(len(request))
            accepted.sendall(bytes([byte]))
        end = time.monotonic() + 10
        while accepted.recv(1 << 16) and time.monotonic() < end:
            pass


def test_each_api_that_is_served_is_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    on = ("records", "groups", "modern_groups", "share_state", "the_cluster")
    for name in (f"attacks_on_{each}" for each in on):
        module = importlib.import_module(f"compat_tests.starvation.{name}")
        few = {"MANY": 3, "SOME": 2, "NEW_TOPICS": 2, "LARGE_BYTES": 10, "UNKNOWN": ("a", "b", "c")}
        for constant, value in few.items():
            if hasattr(module, constant):
                monkeypatch.setattr(module, constant, value)
    scene = importlib.import_module("compat_tests.starvation.scene").Scene("", ("t",), ("g",) * 3, "v", "x", 1, 0)
    light = [each for each in attacks.ATTACKS if "compacted" not in each.name]
    keys = {int.from_bytes(frame[4:6], "big") for attack in light for frame in attacks.frames_of(attack, scene)}
    assert keys == {int(api.key) for api in importlib.import_module("kwire.server.apis").SERVED}


def test_the_row_leaves_no_attack_out() -> None:
    together = {each.together for each in attacks.ATTACKS if each.together}
    alone = {each.name for each in attacks.ATTACKS if not each.together}
    assert {each.name for each in attacks.cases()} == together | alone
