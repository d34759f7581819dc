"""Campaign of storms: the round trips of honest clients stay under three times their base beside each storm.

    python -m tests.campaign.storms.run --seconds 10 --rounds 3

Each round starts a broker, measures honest clients without a storm, then beside it. A row of docs/evidence/storms.jsonl
has the medians over the rounds. The certificate has a key of RSA with 2,048 bits, whose handshakes are expensive.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from compat_tests.harness.ports import free_ports
from tests.campaign.confined import Confined, confined
from tests.campaign.evidence import Evidence, current_commit
from tests.campaign.secured_listener import PASSWORD, USER, SecuredListener
from tests.campaign.storms.honest import TOPIC
from tests.server.security.sasl.logins import alter, upsertion
from tests.support.raw_client import RawClient
from tests.support.requests import create_request

RATIO_MAX: Final = 3.0
RSA_BITS: Final = 2048
MEMORY_BYTES: Final = 2 * 1024**3
OTHER_CONNECTIONS: Final = 100
"""Connections and other open files of a broker that the idle connections leave free."""
SETTLE_SECONDS: Final = 2.0
EVIDENCE: Final = Evidence(
    name="storms",
    title="Storms of connections, handshakes and wrong passwords",
    about="the 99th percentile of round trips of honest clients in ms, before the storm and beside it: medians of the "
    "rounds; answers of the broker to the storm in a second; KB is the memory of each open connection",
    columns=("commit", "storm", "rounds", "seconds", "load", "answers/s", "base p99", "p99", "KB", "outcome"),
    counted="rounds",
    sound=r"^holds",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Storm: its listener, and its attempts in a second or its idle connections."""

    protocol: str
    rate: int = 1000
    load: str = ""
    """Kind of the load; by default the name of the storm."""


STORMS: Final = {
    "slow": Kind("SSL"),
    "connects": Kind("PLAINTEXT"),
    "handshakes": Kind("SSL"),
    "together": Kind("SSL"),
    "idle-2000": Kind("SSL", 2_000, "idle"),
    "idle-10000": Kind("SSL", 10_000, "idle"),
    "plain": Kind("SASL_PLAINTEXT"),
    "scram": Kind("SASL_PLAINTEXT"),
}


@dataclass(slots=True)
class Round:
    """Figures of one round: round trips by role, in milliseconds."""

    base: dict[str, dict[str, float]] = field(default_factory=dict)
    beside: dict[str, dict[str, float]] = field(default_factory=dict)
    answers_per_second: float = 0.0
    kilobytes: float = 0.0
    problems: list[str] = field(default_factory=list)


class Honest:
    """The process with the honest clients."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def since_last(self) -> dict[str, dict[str, float]]:
        """Return the round trips since the last call."""
        found: dict[str, dict[str, float]] = json.loads(_asked(self._process))
        return found

    def during(self, seconds: float) -> dict[str, dict[str, float]]:
        self.since_last()
        time.sleep(seconds)
        return self.since_last()


def _asked(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return _line(process.stdout)


def _line(output: IO[str] | None) -> str:
    assert output is not None
    line = output.readline()
    assert line, "a process of the campaign has ended"
    return line


@contextmanager
def _python(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def run_round(storm: str, directory: Path, seconds: float) -> Round:
    """Start a broker and measure honest clients before the storm and beside it."""
    kind, found = STORMS[storm], Round()
    listener = SecuredListener.create(kind.protocol, free_ports(1)[0], directory, rsa_bits=RSA_BITS)
    file = directory / "listener.json"
    listener.write(file)
    settings = listener.settings | {"log_retention_ms": "-1"}
    with confined(directory, settings, memory_bytes=MEMORY_BYTES) as server:
        with RawClient(server.bootstrap_server) as admin:
            admin.ask(create_request(TOPIC), 7)
            assert alter(admin, [upsertion(USER, PASSWORD)]) == {USER: (0, None)}
        with _python("tests.campaign.storms.honest", file) as process:
            honest = Honest(process)
            honest.during(SETTLE_SECONDS)
            found.base = honest.during(seconds)
            _measure(storm, kind, server, honest, file, seconds, found)
        found.problems += [f"log: {line}" for line in server.errors()[:3]]
    return found


def _measure(
    storm: str, kind: Kind, server: Confined, honest: Honest, file: Path, seconds: float, found: Round
) -> None:
    before = server.memory_bytes
    name = kind.load or storm
    amount = min(kind.rate, _connections_max()) if name == "idle" else kind.rate
    with _python("tests.campaign.storms.load", name, file, seconds + 2 * SETTLE_SECONDS, amount) as load:
        opened = json.loads(_line(load.stdout))["open"] if name == "idle" else 0
        time.sleep(SETTLE_SECONDS)
        if opened:
            found.kilobytes = (server.memory_bytes - before) / opened / 1000
        found.beside = honest.during(seconds)
        counts: dict[str, Any] = json.loads(_line(load.stdout))
    found.answers_per_second = counts.get("answered", 0) / (seconds + 2 * SETTLE_SECONDS)
    if counts["open"] < opened:
        found.problems.append(f"{opened - counts['open']} idle connections were closed")
    print(f"{storm}: load {counts}, base {_p99(found.base)}, beside {_p99(found.beside)}", flush=True)


def _p99(roles: dict[str, dict[str, float]]) -> dict[str, float]:
    return {name: round(figures["p99"], 2) for name, figures in roles.items()}


def _connections_max() -> int:
    """Return the connections that a broker accepts with the hard limit of open files, besides those of the campaign."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard // 2 - OTHER_CONNECTIONS if hard > 0 else sys.maxsize


def summed_up(rounds: list[Round]) -> tuple[str, str, str]:
    """Return the base, the figures beside the storm, and the outcome."""
    base, beside, missed = [], [], []
    for role in rounds[0].base:
        before = statistics.median(each.base[role]["p99"] for each in rounds)
        after = statistics.median(each.beside[role]["p99"] for each in rounds)
        base.append(f"{role} {before:.2f}")
        beside.append(f"{role} {after:.2f}")
        if after > RATIO_MAX * before:
            missed.append(f"{role} {after / before:.1f} times its base")
    problems = [problem for each in rounds for problem in each.problems]
    return ", ".join(base), ", ".join(beside), "; ".join([*missed, *problems[:3]]) or "holds"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--storm", choices=STORMS, action="append", help="only this one; may be repeated")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    commit, missed = current_commit(), False
    for storm in given.storm or STORMS:
        directories = [Path(tempfile.mkdtemp(prefix=f"kwire-storm-{storm}-")) for _ in range(given.rounds)]
        rounds = [run_round(storm, directory, given.seconds) for directory in directories]
        base, beside, outcome = summed_up(rounds)
        missed = missed or outcome != "holds"
        answers = statistics.median(each.answers_per_second for each in rounds)
        kilobytes = statistics.median(each.kilobytes for each in rounds)
        print(f"{storm}: base {base}; beside {beside}; {kilobytes:.1f} KB a connection; {outcome}", flush=True)
        if not given.no_evidence:
            load = f"{os.getloadavg()[0]:.1f}"
            size = f"{kilobytes:.0f}" if kilobytes else ""
            cells = (given.rounds, f"{given.seconds:g}", load, f"{answers:.0f}", base, beside, size, outcome)
            EVIDENCE.append(commit, storm, *cells)
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
