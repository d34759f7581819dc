"""Status of a cluster as lines of text, and as an object for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from kwire.cli.cluster_status import (
    NO_NODE,
    SILENT_MS_MAX,
    STORAGE_ERROR,
    Broker,
    ClusterStatus,
    Partition,
    Quorum,
    Voter,
)
from kwire.cli.log_command import printable
from kwire.cluster.topic_names import INTERNAL_TOPICS

SHOWN_MAX = 50
"""Partitions shown as text; --format json has all of them."""
GAP = "   "
UNKNOWN = "?"


def as_object(status: ClusterStatus) -> dict[str, Any]:
    """Return the status as an object for JSON."""
    shown = asdict(status)
    del shown["unhealthy"]
    return {
        "healthy": status.is_healthy,
        **shown,
        "offline": status.count("offline"),
        "unserved": status.count("unserved"),
        "failed_replica": status.count("failed-replica"),
        "under_min_isr": status.count("under-min-isr"),
        "under_replicated": status.count("under-replicated"),
        "unhealthy_partitions": [
            {**asdict(each), "missing": list(each.missing), "failed": list(each.failed), "states": list(each.states)}
            for each in status.unhealthy
        ],
    }


def as_lines(status: ClusterStatus) -> Iterator[str]:
    verdict = click.style("healthy", fg="green") if status.is_healthy else click.style("not healthy", fg="red")
    yield f"cluster {status.cluster_id}: {verdict}"
    yield ""
    yield from _table(
        ("broker", "address", "rack", "state", "leads", "replicas", "lag", "worst"),
        [_broker_row(each) for each in status.brokers],
    )
    yield ""
    yield from _directory_lines(status.brokers)
    yield from _quorum_lines(status.quorum)
    yield ""
    yield from _age_lines(status)
    yield _partition_line(status)
    if status.unhealthy:
        yield ""
        yield from _table(
            ("partition", "leader", "replicas", "in sync", "missing", "state"),
            [_partition_row(each) for each in sorted(status.unhealthy, key=_concern)[:SHOWN_MAX]],
        )
    if len(status.unhealthy) > SHOWN_MAX:
        yield f"... and {len(status.unhealthy) - SHOWN_MAX} more"


def _concern(partition: Partition) -> tuple[bool, bool, bool]:
    """Return the sort key: partitions that accept no records first, then partitions of users before internal ones."""
    is_served = not (partition.is_offline or partition.is_unserved)
    return is_served, not partition.is_under_min_isr, partition.topic in INTERNAL_TOPICS


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _broker_row(broker: Broker) -> tuple[str, ...]:
    states = ["fenced"] if broker.is_fenced else ["up"] if broker.trouble is None else []
    if broker.trouble is not None:
        states.append(f"unreachable ({broker.trouble})")
    state = ", ".join(states)
    numbers = (broker.leads, broker.partitions, broker.lag_sum, broker.lag_max)
    return str(broker.broker_id), broker.address, broker.rack or "-", state, *map(_number, numbers)


def _directory_lines(brokers: Sequence[Broker]) -> Iterator[str]:
    """Yield a table of the log directories that are offline or full; nothing if there are none."""
    rows = [
        (
            str(broker.broker_id),
            directory.path,
            "full" if directory.is_full else f"offline ({directory.error})",
            "-" if directory.error else f"{directory.usable_bytes} bytes",
        )
        for broker in brokers
        for directory in broker.directories
        if not directory.is_healthy
    ]
    if rows:
        yield from _table(("broker", "log directory", "state", "left"), rows)
        yield ""


def _age_lines(status: ClusterStatus) -> Iterator[str]:
    """Yield the age of the metadata from which the partitions are shown, if they are not up to date."""
    source = f"brokers and partitions: as the broker at {status.asked_broker} knows them"
    if status.quorum.trouble is not None:
        yield f"{source}; without a controller later changes are unknown"
    elif status.metadata_age_ms is not None and status.metadata_age_ms > SILENT_MS_MAX:
        yield f"{source}, {status.metadata_age_ms / 1000:.0f} s old"


def _quorum_lines(quorum: Quorum) -> Iterator[str]:
    if quorum.trouble is not None:
        yield f"controllers: {quorum.trouble}"
        return
    leader = "no leader" if quorum.leader_id == NO_NODE else f"{quorum.leader_id} leads epoch {quorum.leader_epoch}"
    committed = f"{_counted(quorum.high_watermark, 'metadata record')} committed"
    if quorum.high_watermark < 0:
        committed = "no metadata record of the epoch committed yet"
    yield f"controllers: {leader}, {committed}, {_counted(quorum.observers, 'observer')}"
    yield from _table(("voter", "address", "state", "lag"), [_voter_row(each) for each in quorum.voters])


def _voter_row(voter: Voter) -> tuple[str, ...]:
    if voter.is_leader:
        state = "leads"
    elif voter.is_healthy:
        state = "follows"
    else:
        since = "no fetch from this leader" if voter.silent_ms is None else f"silent for {voter.silent_ms / 1000:.0f} s"
        state = since
    return str(voter.node_id), voter.address or "-", state, _number(voter.lag)


def _partition_line(status: ClusterStatus) -> str:
    states = ["offline", "under-min-isr", "under-replicated"]
    states[1:1] = [state for state in ("unserved", "failed-replica") if status.count(state)]
    counts = ", ".join(f"{status.count(state)} {state}" for state in states)
    numbers = {"topic": status.topics, "partition": status.partitions, "replica": status.replicas}
    return f"{', '.join(_counted(number, what) for what, number in numbers.items())}: {counts}"


def _partition_row(partition: Partition) -> tuple[str, ...]:
    lags = dict(zip(partition.replicas, partition.lags, strict=True))
    missing = [f"{each} (lag {_number(lags[each])})" for each in partition.missing]
    missing += [f"{each} ({STORAGE_ERROR})" for each in partition.failed if each not in partition.missing]
    return (
        f"{partition.topic}-{partition.index}",
        "-" if partition.is_offline else str(partition.leader),
        ",".join(map(str, partition.replicas)),
        ",".join(map(str, partition.in_sync)) or "-",
        ", ".join(missing) or "-",
        ", ".join(partition.states),
    )


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [heads, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
