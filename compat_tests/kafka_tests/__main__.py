"""Apache Kafka's own integration tests on kwire: `python -m compat_tests.kafka_tests`.

Without arguments it runs the classes of the row. `--only Class` or `--only Class#method` is for development;
`--family` or `--all` runs a whole family or everything. Those two keep results: a class that has run with the current
sources does not run again. They leave out methods that the allow-list lists for a missing capability, unless
`--recheck` is given.
"""

import argparse
import math
import sys

from rich.console import Console

from compat_tests.kafka_tests import allowed, evidence
from compat_tests.kafka_tests.choosing import FAMILIES, ROW, all_tests, family_tests, named
from compat_tests.kafka_tests.jars import fetch
from compat_tests.kafka_tests.judging import PASSED, SKIPPED
from compat_tests.kafka_tests.proving import Result, complaints, prove, table
from compat_tests.kafka_tests.running import SIDES, run

JOBS = 2


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="CLASS[#METHOD]", help="this one; may be repeated")
    parser.add_argument("--family", choices=FAMILIES, help="every class of one family")
    parser.add_argument("--all", action="store_true", help="every class of all families")
    parser.add_argument("--recheck", action="store_true", help="run also what the allow-list says needs a capability")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no class that would end later")
    parser.add_argument("--side", choices=SIDES, help="run there only, and show each invocation")
    parser.add_argument("--jobs", type=int, default=JOBS, help="JVMs at a time")
    parser.add_argument("--evidence", action="store_true", help="write docs/evidence/kafka-tests.md")
    parser.add_argument("--shrink", action="store_true", help="remove entries that pass from the allow-list")
    parser.add_argument("--list", action="store_true", help="name all classes")
    arguments = parser.parse_args(given)
    console = Console(width=130)
    fetch()
    if arguments.list:
        console.print("\n".join(f"{family} {name}" for family in FAMILIES for name in family_tests(family)))
        return 0
    wanted = _wanted(arguments)
    if arguments.side:
        return _show(wanted, arguments.side, console)
    is_whole = arguments.all or bool(arguments.family)
    results, left = prove(
        wanted,
        jobs=arguments.jobs,
        say=lambda line: console.print(line, markup=False, highlight=False),
        minutes=arguments.minutes,
        resume=is_whole,
        recheck=arguments.recheck or not is_whole,
    )
    console.print(table(results))
    if arguments.shrink:
        _shrink(results)
    if left:
        console.print(f"{len(left)} of {len(wanted)} classes are left; the same command goes on with them")
    if arguments.evidence:
        evidence.write(results)
    against = complaints(results)
    for each in against:
        console.print(each, markup=False, highlight=False, soft_wrap=True)
    return 1 if against else 0


def _wanted(arguments: argparse.Namespace) -> list[str]:
    if arguments.all:
        return evidence.oldest_first(all_tests())
    if arguments.family:
        return evidence.oldest_first(family_tests(arguments.family))
    return [each for name in arguments.only or ROW for each in named(name)]


def _shrink(results: list[Result]) -> None:
    entries = allowed.read()
    passed = {name for result in results for name, verdict in result.kwire.items() if verdict.state == PASSED}
    stale = {allowed.covering(name, entries) for name in passed}
    allowed.write({name: entry for name, entry in entries.items() if name not in stale})


def _show(selectors: list[str], side: str, console: Console) -> int:
    """Print, for development, each invocation with its error and the output of its nodes."""
    invocations = [each for selector in selectors for each in run(selector, side)]
    for each in invocations:
        lines = [f"{each['status']} {each['id']} {each['seconds']} s", *each.get("insides", ())]
        if each["status"] not in (PASSED, SKIPPED):
            lines += [*each.get("errors", ()), *(f"  at {line}" for line in each.get("trace", ()))]
            lines.append(each.get("output", ""))
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    return 1 if any(each["status"] == "failed" for each in invocations) else 0


if __name__ == "__main__":
    sys.exit(main())
