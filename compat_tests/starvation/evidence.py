"""Writer of docs/evidence/starvation.md: figures of the last full run, kwire's and Apache Kafka's side by side."""

import json
import subprocess
from datetime import UTC, datetime

from compat_tests.harness.paths import CACHE, ROOT
from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.starvation.judging import BOUND_MS, p99_ms

PAGE = ROOT / "docs" / "evidence" / "starvation.md"
FOLDER = CACHE / "starvation"
BROKERS = ("kwire", "kafka")
TEXT = f"""# Latencies of one client while another client is aggressive

Written by `make compat ROW=starvation`; the code is in compat_tests/starvation. An attacker sends the largest legal
request of an API, pipelined, from 1 and from 20 connections, for 1.5 seconds. Meanwhile a victim sends a Heartbeat and
a Produce (acks=all) every 10 ms.

- heartbeat, produce: latencies of the victim in milliseconds (median / 99th percentile / maximum), from the time when a
  request was due
- sent: MB that the broker received from the attacker
- answers: requests of the attacker that were answered completely in that time

The control is Apache Kafka {KAFKA_VERSION}. kwire runs from its Python sources, not compiled.
"""
HEADINGS = ("attack", "connections", "request bytes")
COLUMNS = ("sent MB", "answers", "heartbeat", "produce", "problems")


class Evidence:
    """Rows of one broker, kept in .cache/starvation between the runs of the two brokers.

    They are written after each case, so that an interrupted run keeps its measurements.
    """

    def __init__(self, broker, *, is_written):
        self.is_written = is_written
        self.path = FOLDER / f"{broker}.json"
        self.rows = read(self.path)
        self.commit = commit()

    def add(self, part, figures, problems):
        key = f"{part}: {figures['attack']} {figures['connections']}"
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        self.rows[key] = {"part": part, "commit": self.commit, "moment": moment, **figures, "problems": problems}
        if self.is_written:
            self.write()

    def write(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.rows, indent=1))
        PAGE.write_text(page({broker: read(FOLDER / f"{broker}.json") for broker in BROKERS}))


def commit():
    """Return the last commit that changed kwire, which is what the run measures."""
    command = ["git", "log", "-1", "--format=%h", "--", "kwire"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


def page(rows_of):
    parts = [TEXT, *summary(rows_of)]
    keys = list(dict.fromkeys(key for rows in rows_of.values() for key in rows))
    for part in dict.fromkeys(row["part"] for rows in rows_of.values() for row in rows.values()):
        headings = [*HEADINGS, *(f"{broker}: {column}" for broker in BROKERS for column in COLUMNS)]
        parts.append(f"\n## {part}\n\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n")
        parts += [line(key, rows_of) for key in keys if key.startswith(f"{part}: ")]
    return "".join(parts)


def summary(rows_of):
    """Yield one line for each broker: the number of cases and how many are under the bound."""
    for broker, rows in rows_of.items():
        if rows:
            quick = sum(p99_ms(row) < BOUND_MS for row in rows.values())
            commits = ", ".join(sorted({row["commit"] for row in rows.values()}))
            moments = sorted(row["moment"] for row in rows.values())
            yield (
                f"\n{broker}: {quick} of {len(rows)} cases have both 99th percentiles under {BOUND_MS:.0f} ms "
                f"(kwire at {commits}; {moments[0]} to {moments[-1]} UTC).\n"
            )


def line(key, rows_of):
    first = next(rows[key] for rows in rows_of.values() if key in rows)
    cells = [first["attack"], first["connections"], first["request_bytes"]]
    for broker in BROKERS:
        row = rows_of[broker].get(key)
        cells += [""] * len(COLUMNS) if row is None else cells_of(row)
    return f"| {' | '.join(map(str, cells))} |\n"


def cells_of(row):
    latencies = [" / ".join(str(row[kind][name]) for name in ("p50", "p99", "max")) for kind in KINDS]
    return [round(row["sent_bytes"] / 1e6, 1), row["answers"], *latencies, "; ".join(row["problems"])]


KINDS = ("heartbeat_ms", "produce_ms")
