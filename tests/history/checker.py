"""All checks of a history, with the definitions of Jepsen's Kafka workload; docs/histories.md describes each.

    python -m tests.history.checker journal.jsonl ...

checks histories that were kept.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.history.checks import cycles, groups, order, progress, shares, visibility, writes
from tests.history.findings import BAD, KNOWN, Finding
from tests.history.operations import OK, Fault, Operation, read
from tests.history.timeline import Timeline

CHECKS: tuple[Callable[[Timeline], Iterator[Finding]], ...] = (
    writes.lost_writes,
    writes.unseen,
    writes.duplicates,
    writes.inconsistent_offsets,
    writes.spurious_offsets,
    visibility.aborted_reads,
    visibility.precommitted_reads,
    visibility.torn_transactions,
    visibility.hanging_transactions,
    order.poll_order,
    order.send_order,
    order.interleaved_sends,
    cycles.write_cycles,
    cycles.information_cycles,
    groups.rewound_commits,
    groups.double_owners,
    shares.share_groups,
    progress.realtime_lag,
    progress.availability,
)


@dataclass(slots=True)
class Report:
    """Findings in one history."""

    findings: list[Finding]
    operations: Counter[str]
    """Number of operations by outcome."""

    def of(self, verdict: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == verdict]

    @property
    def bad(self) -> list[Finding]:
        return self.of(BAD)

    def __str__(self) -> str:
        counts = Counter(f"{finding.name} ({finding.verdict})" for finding in self.findings)
        lines = [f"{sum(self.operations.values())} operations: {dict(self.operations)}"]
        lines += [f"{count} x {what}" for what, count in sorted(counts.items())]
        lines += [str(finding) for finding in self.findings if finding.name == "realtime lag" or finding.verdict == BAD]
        return "\n".join(lines)


def check(operations: Iterable[Operation]) -> Report:
    """Return all anomalies of every kind."""
    timeline = Timeline(operations)
    known = _known_of_v1(timeline)
    found = [finding for each in CHECKS for finding in each(timeline)]
    judged = [
        replace(finding, verdict=KNOWN) if finding.verdict == BAD and known & set(finding.transactions) else finding
        for finding in found
    ]
    return Report(judged, Counter(operation.outcome for operation in timeline.operations))


def _known_of_v1(timeline: Timeline) -> set[str]:
    """Return transactions without their own epoch that a delayed EndTxn of the same producer may have ended.

    They began while it was held, and were open when it arrived. The transaction that it was meant for is not among
    them.
    """
    held = [each for each in timeline.all(Fault) if each.what == "hold" and each.outcome == OK]
    return {
        transaction.name
        for transaction in timeline.transactions.values()
        if transaction.protocol == "v1"
        for each in held
        if each.transactional_id == transaction.transactional_id and each.invoked < transaction.began < each.completed
    }


def main() -> None:
    report = check(read(*map(Path, sys.argv[1:])))
    print(report)
    raise SystemExit(bool(report.bad))


if __name__ == "__main__":
    main()
