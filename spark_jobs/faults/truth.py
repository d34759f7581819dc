"""Truth about the input of a round: what was committed where, what is left of it, and what Spark passed over."""

from collections.abc import Sequence

from spark_jobs.faults.reading import Found, Offsets
from spark_jobs.faults.stream import PARTITIONS, Entry, Ledger


def confirmed(ledger: Ledger, found: Sequence[Found], *, may_lack: bool) -> list[str]:
    """Compare a ledger with the records that a topic has, and take their offsets; return the differences.

    With `may_lack`, records were deleted, and the offsets are those of the delivery reports.
    """
    if may_lack:
        known = {(each.partition, each.offset, each.sent.text.encode()) for each in ledger.entries}
        return [f"input: {each} was never committed" for each in found if (*each[:2], each.value) not in known]
    problems = []
    for partition in range(PARTITIONS):
        stored = [each for each in found if each.partition == partition]
        numbers = [number for number, each in enumerate(ledger.entries) if each.partition == partition]
        sent = [ledger.entries[number].sent.text.encode() for number in numbers]
        if [each.value for each in stored] != sent:
            problems.append(f"input: partition {partition} has {len(stored)} records, {len(sent)} were committed")
            continue
        for number, each in zip(numbers, stored, strict=True):
            ledger.entries[number] = Entry(partition, each.offset, ledger.entries[number].sent)
    return problems


def passed_over(before: Sequence[Offsets], after: Sequence[Offsets]) -> Offsets:
    """Return the offsets before which a query reads nothing of a topic made anew.

    Spark knows offsets only. It continues where it was; if the new topic is shorter, it continues at the end of that.
    `before` and `after` are the ends of its batches, without and with those over the new topic.
    """
    start = before[-1]
    if len(after) == len(before):
        return start
    return {partition: min(start[partition], end) for partition, end in after[len(before)].items()}
