"""Differences between two brokers' observations, and the permitted differences."""

from collections.abc import Container
from pathlib import Path
from typing import Any

from compat_tests.log_format.observing import LATEST, Questions
from compat_tests.log_format.random_data import Partition
from kwire.log.checkpoints import LOG_START_FILE, parse_offsets
from kwire.protocol.records import BatchHeader, decode_all, iterate_headers

SHOWN_MAX = 12
NOTHING = (-1, -1)
Observations = dict[Partition, dict[str, Any]]


def questions_about(bytes_of: dict[Partition, bytes], last_epoch: int | None = None) -> dict[Partition, Questions]:
    return {partition: Questions.about(data, last_epoch) for partition, data in bytes_of.items()}


def differences(ours: Observations, theirs: Observations, *, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """Return a line for each kind of answer of each partition that differs, with the first difference."""
    assert ours.keys() == theirs.keys()
    found = []
    for partition, answers in ours.items():
        for what, answer in answers.items():
            if what not in leave_out and answer != theirs[partition][what]:
                found.append(f"{partition} {what}: {_first_difference(answer, theirs[partition][what])}")
    return found[:SHOWN_MAX] + [f"and {len(found) - SHOWN_MAX} more"] * (len(found) > SHOWN_MAX)


def _first_difference(ours: object, theirs: object) -> str:
    if isinstance(ours, list | tuple) and len(ours) == len(theirs):
        mine, other = next((mine, other) for mine, other in zip(ours, theirs, strict=True) if mine != other)
        return _first_difference(mine, other) + f" in {tuple(part for part in ours if isinstance(part, int))}"
    return f"{ours!r:.400} and {theirs!r:.400}"


def starts_inside(data: Path) -> dict[Partition, int]:
    """Return the log start offset of partitions whose log starts after the base of their first segment."""
    path = data / LOG_START_FILE
    if not path.exists():
        return {}
    return {Partition(*key): offset for key, offset in parse_offsets(path.read_bytes(), str(path)).items()}


def wrong_answers(observed: Observations, *, is_kafka: bool, inside: Container[Partition]) -> list[str]:
    """Return answers by timestamp, and epochs at the start, that do not match the bytes that the broker returned.

    Kafka searches only the first segment that has such a timestamp. The record may lie before the log start, or only
    a batch that compaction emptied may have the timestamp: then Kafka finds nothing. No epoch is returned if the log
    start lies before the first batch, in a gap of a follower's log.
    """
    found = []
    for partition, answers in observed.items():
        start = answers["edges"][1][1]
        records = [(each.offset, each.timestamp) for each in decode_all(answers["bytes"]) if each.offset >= start]
        for timestamp, offset, time, *_ in answers["times"]:
            expected = next((each for each in records if each[1] >= timestamp), NOTHING)
            missed = is_kafka and offset == -1 and (partition in inside or partition.topic == "compact")
            if (offset, time) != expected and not missed:
                found.append(f"{partition} at {timestamp}: {(offset, time)}, not {expected}")
        _, header = next(iterate_headers(answers["bytes"]), (0, None))
        epoch = answers["edges"][1][4]
        if header is not None and header.base_offset <= start and epoch not in (-1, header.partition_leader_epoch):
            found.append(f"{partition} begins with epoch {epoch}, not {header.partition_leader_epoch}")
    return found[:SHOWN_MAX]


def excused(ours: Observations, theirs: Observations) -> Observations:
    """Return our answers, which are correct, replaced by Kafka's where Kafka returns less.

    Kafka finds no timestamp after the first segment that has it, and no epoch for a start that a crash moved back.
    Its last stable offset lies before the log start if the start is in the first batch of an open transaction.
    After a crash kwire takes epochs from the batches: an epoch that began in a gap then begins after the gap, and
    a start in a gap has no epoch.
    """
    changed = {}
    for partition, answers in ours.items():
        other = theirs[partition]
        start = other["edges"][1][1]
        headers = [header for _, header in iterate_headers(answers["bytes"])]
        begins_in_gap = not headers or headers[0].base_offset > start
        changed[partition] = answers | {
            what: [
                b if is_excused(a, b, start, begins_in_gap=begins_in_gap) else a
                for a, b in zip(answers[what], other[what], strict=True)
            ]
            for what in ("times", "edges", "committed edges")
        }
        changed[partition]["epochs"] = [
            b if a[:3] == b[:3] and is_excused_end(a, b, headers, forgot=other["edges"][1][4] == -1) else a
            for a, b in zip(answers["epochs"], other["epochs"], strict=True)
        ]
    return changed


def is_excused(ours: tuple, theirs: tuple, start: int, *, begins_in_gap: bool) -> bool:
    timestamp, offset = theirs[:2]
    if timestamp >= 0:
        return offset == -1
    if timestamp == LATEST:
        return offset < start == ours[1]
    return ours[:4] == theirs[:4] and (theirs[4] == -1 or (ours[4] == -1 and begins_in_gap))


def is_excused_end(ours: tuple, theirs: tuple, headers: list[BatchHeader], *, forgot: bool) -> bool:
    """Return True if both ends of an epoch lie in one gap, or the batches prove ours and Kafka lost its epochs."""
    first, last = sorted((ours[3], theirs[3]))
    in_one_gap = not any(header.base_offset < last and header.last_offset >= first for header in headers)
    end = next((header.base_offset for header in headers if header.partition_leader_epoch > ours[0]), None)
    return in_one_gap or (forgot and ours[3] == end)
