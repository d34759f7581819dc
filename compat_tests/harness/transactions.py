"""Plans of transactions for these suites, and the values that a read_committed reader must return."""

from dataclasses import dataclass

PARTITIONS = 2
RECORDS = 6

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True, kw_only=True, frozen=True)
class Transaction:
    commits: bool
    records: tuple[tuple[Place, bytes], ...]


def places_of(*topics: str) -> list[Place]:
    return [(topic, partition) for topic in topics for partition in range(PARTITIONS)]


def alternating(places: list[Place], count: int) -> list[Transaction]:
    """Return transactions over all partitions; every third is aborted, the first and the last are committed."""
    plan = []
    for number in range(count):
        commits = number % 3 != 1
        word = "commit" if commits else "abort"
        records = [(places[each % len(places)], f"{word} {number} {each}".encode()) for each in range(RECORDS)]
        plan.append(Transaction(commits=commits, records=tuple(records)))
    assert plan[-1].commits
    return plan


def expected(plan: list[Transaction], *, committed_only: bool = True) -> dict[Place, list[bytes]]:
    """Return the values of each partition in order."""
    values: dict[Place, list[bytes]] = {}
    for transaction in plan:
        for place, value in transaction.records:
            if transaction.commits or not committed_only:
                values.setdefault(place, []).append(value)
    return values


def count(values: dict[Place, list[bytes]]) -> int:
    return sum(len(each) for each in values.values())
