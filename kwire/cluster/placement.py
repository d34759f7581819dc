"""Placement of a new partition's replicas: striped over racks, and over the brokers of each rack.

The goals, the most important first: a partition's replicas are in as many racks as possible; leaders and replicas are
spread evenly over brokers; fenced brokers are used last. Two rules always hold: replicas are on distinct brokers, and
the first one, the leader, is on an unfenced broker.

Racks take turns from a random start, and each partition starts one rack further. In a rack its unfenced brokers take
turns first, then its fenced ones, also from a random start. When every unfenced broker has led once, all orders are
shuffled again. Otherwise the same sets of brokers would repeat, and the failure of a broker would always burden the
same others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kwire.chunks import Pieces, mapped
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import RandomSource


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableBroker:
    """Broker that may get replicas: it is not shutting down and has a log directory that is not cordoned."""

    broker_id: int
    rack: str | None = None
    is_fenced: bool = False


def place(
    brokers: Iterable[UsableBroker], *, partitions: int, replication_factor: int, random_source: RandomSource
) -> Pieces[list[list[int]]]:
    """Return the replicas of each new partition, the preferred leader first; yields between groups of partitions.

    Raises KafkaError INVALID_REPLICATION_FACTOR if there are not enough brokers.
    """
    usable = sorted(brokers, key=lambda broker: broker.broker_id)
    _check(usable, replication_factor)
    racks = _Racks(usable, random_source)
    return (yield from mapped(range(partitions), lambda _: racks.place(replication_factor)))


def _check(usable: list[UsableBroker], replication_factor: int) -> None:
    why = None
    if replication_factor <= 0:
        why = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif all(broker.is_fenced for broker in usable):
        why = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > len(usable):
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    if why:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)


def _below(random_source: RandomSource, count: int) -> int:
    """Return a random number in [0, count)."""
    return min(int(random_source.uniform(0, count)), count - 1)


def _shuffle(items: list[Any], random_source: RandomSource) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _below(random_source, last + 1)
        items[last], items[other] = items[other], items[last]


class _Turns:
    """Brokers that take turns: each round returns every broker once, and starts one further than the round before."""

    def __init__(self, brokers: list[int], random_source: RandomSource) -> None:
        self.brokers = brokers
        self._start = _below(random_source, len(brokers)) if brokers else 0
        self._round = 0
        self._given = 0

    def next(self, round_number: int) -> int | None:
        """Return the next broker of this round; None if all had their turn."""
        if not self.brokers:
            return None
        if self._round != round_number:
            self._round, self._given = round_number, 0
            self._start = (self._start + 1) % len(self.brokers)
        if self._given == len(self.brokers):
            return None
        self._given += 1
        return self.brokers[(self._start + self._given - 1) % len(self.brokers)]


class _Rack:
    def __init__(self, brokers: list[UsableBroker], random_source: RandomSource) -> None:
        self.fenced = _Turns([broker.broker_id for broker in brokers if broker.is_fenced], random_source)
        self.unfenced = _Turns([broker.broker_id for broker in brokers if not broker.is_fenced], random_source)

    def next(self, round_number: int) -> int | None:
        broker = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Racks:
    """All racks; brokers without a rack form one rack together."""

    def __init__(self, brokers: list[UsableBroker], random_source: RandomSource) -> None:
        by_name: dict[tuple[bool, str], list[UsableBroker]] = {}
        for broker in brokers:
            by_name.setdefault((broker.rack is not None, broker.rack or ""), []).append(broker)
        self._racks = [_Rack(by_name[name], random_source) for name in sorted(by_name)]
        self._random_source = random_source
        self._unfenced = sum(not broker.is_fenced for broker in brokers)
        self._start = _below(random_source, len(self._racks))
        self._round = 0

    def place(self, replication_factor: int) -> list[int]:
        """Return the replicas of the next partition."""
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
        leader, leaders_rack = self._leader()
        replicas = [leader]
        position = self._start
        while len(replicas) < replication_factor:
            if position == leaders_rack:
                leaders_rack = None  # skip the leader's rack once, in the first pass over the racks
            else:
                broker = self._racks[position].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            position = (position + 1) % len(self._racks)
        self._round += 1
        self._start = (self._start + 1) % len(self._racks)
        return replicas

    def _leader(self) -> tuple[int, int | None]:
        for step in range(len(self._racks)):
            position = (self._start + step) % len(self._racks)
            broker = self._racks[position].unfenced.next(self._round)
            if broker is not None:
                return broker, position
        raise AssertionError("an unfenced broker exists, and each round returns each broker once")

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_source)
        for rack in self._racks:
            _shuffle(rack.fenced.brokers, self._random_source)
            _shuffle(rack.unfenced.brokers, self._random_source)
        self._round = 0
