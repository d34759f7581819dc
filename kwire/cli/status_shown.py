"""A cluster's status as lines for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from kwire.cli.cluster_status import NOBODY, Broker, ClusterStatus, Partition, Quorum, Voter
from kwire.cli.log_command import printable
from kwire.cluster.topic_names import INTERNAL_TOPICS

SHOWN_MAX = 50
"""Of partitions; --format json has all of them."""
GAP = "   "
UNKNOWN = "?"


def as_object(status: ClusterStatus) -> dict[str, Any]:
    """For JSON."""
    shown = asdict(status)
    del shown["unhealthy"]
    return {
        "healthy": status.is_healthy,
        **shown,
        "offline": status.count("offline"),
        "under_min_isr": status.count("under-min-isr"),
        "under_replicated": status.count("under-replicated"),
        "unhealthy_partitions": [
            {**asdict(each), "missing": list(each.missing), "states": list(each.states)} for each in status.unhealthy
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
    yield from _quorum_lines(status.quorum)
    yield ""
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
    """The smallest first: what takes no records, and what users named, before the many of the internal topics."""
    return not partition.is_offline, not partition.is_under_min_isr, partition.topic in INTERNAL_TOPICS


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _broker_row(broker: Broker) -> tuple[str, ...]:
    state = "fenced" if broker.is_fenced else "up"
    if broker.trouble is not None:
        state = f"{state}, {broker.trouble}"
    numbers = (broker.leads, broker.partitions, broker.lag_sum, broker.lag_max)
    return str(broker.broker_id), broker.address, broker.rack or "-", state, *map(_number, numbers)


def _quorum_lines(quorum: Quorum) -> Iterator[str]:
    if quorum.trouble is not None:
        yield f"controllers: {quorum.trouble}"
        return
    leader = "nobody leads" if quorum.leader_id == NOBODY else f"{quorum.leader_id} leads epoch {quorum.leader_epoch}"
    committed = f"{_counted(quorum.high_watermark, 'metadata record')} committed"
    yield f"controllers: {leader}, {committed}, {_counted(quorum.observers, 'observer')}"
    yield from _table(("voter", "address", "state", "lag"), [_voter_row(each) for each in quorum.voters])


def _voter_row(voter: Voter) -> tuple[str, ...]:
    if voter.is_leader:
        state = "leads"
    elif voter.is_healthy:
        state = "follows"
    else:
        state = "never heard of" if voter.silent_ms is None else f"silent for {voter.silent_ms / 1000:.0f} s"
    return str(voter.node_id), voter.address or "-", state, _number(voter.lag)


def _partition_line(status: ClusterStatus) -> str:
    states = ("offline", "under-min-isr", "under-replicated")
    counts = ", ".join(f"{status.count(state)} {state}" for state in states)
    numbers = {"topic": status.topics, "partition": status.partitions, "replica": status.replicas}
    return f"{', '.join(_counted(number, what) for what, number in numbers.items())}: {counts}"


def _partition_row(partition: Partition) -> tuple[str, ...]:
    lags = dict(zip(partition.replicas, partition.lags, strict=True))
    missing = (f"{each} (lag {_number(lags[each])})" for each in partition.missing)
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
