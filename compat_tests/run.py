"""Run every client's suite against kwire and Apache Kafka, and print one table: `make compat`.

The exit status is 0 only if kwire passes all tests that Kafka passes. docs/differences.md must list each test that
passes on kwire alone, and each skipped test must declare its reason (skip_as_declared).
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from compat_tests.franz_go.building import VERSION as FRANZ_GO_VERSION
from compat_tests.harness import suites
from compat_tests.harness.install import install
from compat_tests.harness.outcomes import FAILED, Outcomes, cell, complaints, same
from compat_tests.harness.paths import ROOT
from compat_tests.harness.reference import KAFKA_VERSION, class_path
from compat_tests.kafka_tests.__main__ import main as run_kafka_tests

#: Row name to (folder, version of the tested client).
ROWS = {
    "kafka-python": ("kafka_python", lambda: version("kafka-python")),
    "confluent-kafka": ("confluent_kafka_client", lambda: version("confluent-kafka")),
    "aiokafka": ("aiokafka_client", lambda: version("aiokafka")),
    "kcat": ("kcat", lambda: kcat_version()),  # noqa: PLW0108 - defined below
    "raw": ("raw", lambda: "-"),
    "configs": ("configs", lambda: "-"),
    "share-consumers": ("share_consumers", lambda: version("confluent-kafka")),
    "franz-go": ("franz_go", lambda: FRANZ_GO_VERSION),
    "quotas": ("quotas", lambda: version("confluent-kafka")),
    "starvation": ("starvation", lambda: "-"),
    "admin-apis": ("admin_apis", lambda: "-"),
    "schemas": ("schemas", lambda: "-"),
    "images": ("images", lambda: KAFKA_VERSION),
    "share-state": ("share_state", lambda: KAFKA_VERSION),
    "assignors": ("assignors", lambda: KAFKA_VERSION),
    "authorizer": ("authorizer", lambda: KAFKA_VERSION),
    "security": ("security", lambda: KAFKA_VERSION),
    "kerberos": ("kerberos", lambda: KAFKA_VERSION),
    "tools": ("kafka_tools", lambda: KAFKA_VERSION),
    "differential": ("differential", lambda: "-"),
    "transaction-script": ("transaction_script", lambda: "-"),
    "group-script": ("group_script", lambda: KAFKA_VERSION),
    "exchanged-groups": ("exchanged_groups", lambda: KAFKA_VERSION),
    "log-format": ("log_format", lambda: KAFKA_VERSION),
    "transactions": ("transactions", lambda: KAFKA_VERSION),
    "streams": ("streams", lambda: KAFKA_VERSION),
    "compaction": ("compaction", lambda: "-"),
    "quorum": ("quorum", lambda: KAFKA_VERSION),
    "cluster": ("cluster", lambda: KAFKA_VERSION),
    "replication": ("replication", lambda: KAFKA_VERSION),
    "mixed": ("mixed", lambda: KAFKA_VERSION),
    "upgrade": ("upgrade", lambda: KAFKA_VERSION),
    "old-clients": ("old_clients", lambda: "1.1 to 3.9"),
}
CLUSTERS = ("quorum", "cluster", "replication", "mixed", "upgrade")
"""Rows with several nodes, which run separately."""
ALONE = ("starvation", "exchanged-groups", *CLUSTERS)
"""Rows that a run without ROW leaves out because they take long."""
WITHOUT_SHORT = {"compaction", "configs", "quotas", "schemas", "share-state", "old-clients", "franz-go", "kerberos"}
"""Rows that a short run leaves out: they need Kafka's jars, a compiler, a KDC, or an idle machine."""
NEED_KAFKA = {
    "images",
    "assignors",
    "authorizer",
    "tools",
    "differential",
    "transaction-script",
    "group-script",
    "exchanged-groups",
    "log-format",
    "transactions",
    "streams",
}
"""Rows whose short form also starts Kafka or Kafka's own clients."""
ONE_AT_A_TIME = {"quotas", "starvation"}
"""Rows that measure rates or latencies, so that no other row may run beside them."""
SUITE_SECONDS = 900
SUITE_SECONDS_OF = {"starvation": 1200, "exchanged-groups": 1800}
"""Seconds for rows that need more than SUITE_SECONDS on one broker."""
KAFKA_TESTS = "kafka-tests"
"""Row that runs separately and prints its own table."""

console = Console(width=110)


def kcat_version() -> str:
    text = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    return text.split("Version ", 1)[1].split(" ", 1)[0]


def run_suite(row: str, broker: str, *, short: bool) -> Outcomes:
    arguments = [str(ROOT / "compat_tests" / ROWS[row][0]), "--broker", broker, "--show-capture=no"]
    arguments += ["-m", "short"] if short else []
    configuration = ROOT / "compat_tests" / "pytest.ini"
    outcomes, output = suites.run_suite(configuration, arguments, SUITE_SECONDS_OF.get(row, SUITE_SECONDS))
    if outcomes.count(FAILED):
        console.print(f"{row} on {broker}:")
        console.print(output[-12_000:], markup=False, highlight=False)
    return outcomes


def new_table() -> Table:
    table = Table(title=f"kwire and Apache Kafka {KAFKA_VERSION} under other people's clients")
    for heading in ("client", "version"):
        table.add_column(heading)
    for heading in ("tests", "passed on kwire", "same on Kafka", "seconds"):
        table.add_column(heading, justify="right")
    return table


def run_both(row: str, *, short: bool) -> tuple[Outcomes, Outcomes | None]:
    """Run a row on kwire and on Kafka at the same time, because suites mostly wait; return both outcomes."""
    if short:
        return run_suite(row, "kwire", short=True), None
    with ThreadPoolExecutor(1 if row in ONE_AT_A_TIME else 2) as pool:
        kwire, kafka = (pool.submit(run_suite, row, broker, short=False) for broker in ("kwire", "kafka"))
        return kwire.result(), kafka.result()


def prove(rows: Sequence[str], *, short: bool) -> list[str]:
    """Run the rows, print the table, and return the complaints about kwire."""
    table, against = new_table(), []
    for row in rows:
        started = time.monotonic()
        console.print(f"{row} ...")
        kwire, kafka = run_both(row, short=short)
        against += complaints(kwire, kafka)
        seconds = f"{time.monotonic() - started:.0f}"
        table.add_row(row, ROWS[row][1](), str(len(kwire.tests)), cell(kwire), same(kwire, kafka), seconds)
    console.print(table)
    return against


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    choices = [*sorted(ROWS), "clusters", KAFKA_TESTS]
    parser.add_argument("--row", action="append", choices=choices, help="this one; may be repeated; clusters are five")
    parser.add_argument("--short", action="store_true", help="kwire only, and only the tests marked short")
    arguments = parser.parse_args()
    if arguments.row == [KAFKA_TESTS]:
        return run_kafka_tests([])
    install("kcat")
    rows = arguments.row or [row for row in ROWS if row not in ALONE and not (arguments.short and row in WITHOUT_SHORT)]
    rows = [each for row in rows for each in (CLUSTERS if row == "clusters" else (row,))]
    if not arguments.short or NEED_KAFKA & set(rows):
        install("kafka")
        class_path()
    against = prove(rows, short=arguments.short)
    for each in against:
        console.print(each, markup=False, highlight=False, soft_wrap=True)
    return 1 if against else 0


if __name__ == "__main__":
    sys.exit(main())
