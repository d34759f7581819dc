"""Indices over a history for the checks: the fate of each write, the places of values, the contents of each log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from tests.history.operations import (
    COMMITTED,
    FAIL,
    OK,
    UNCOMMITTED,
    Begin,
    BrokenHistoryError,
    End,
    Final,
    Operation,
    Poll,
    Send,
    Store,
)

ABORTED, UNKNOWN = "aborted", "unknown"
"""Fates of a write, in addition to COMMITTED."""
LEVELS = (COMMITTED, UNCOMMITTED)
Place = tuple[str, int]
"""(key, offset)."""
Kind = TypeVar("Kind", bound=Operation)


@dataclass(slots=True, kw_only=True)
class Transaction:
    """All operations of a transaction."""

    name: str
    transactional_id: str = ""
    protocol: str = ""
    began: float = 0
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    @property
    def fate(self) -> str:
        """Return the fate: without a commit request that may have taken effect, the transaction cannot be committed."""
        commits = [end.outcome for end in self.ends if end.commit]
        if OK in commits:
            return COMMITTED
        return ABORTED if all(outcome == FAIL for outcome in commits) else UNKNOWN

    @property
    def commit(self) -> End | None:
        """Return the acknowledged commit, or else one that may have taken effect."""
        commits = [end for end in self.ends if end.commit and end.outcome != FAIL]
        return min(commits, key=lambda end: end.outcome != OK, default=None)

    @property
    def asked_to_commit(self) -> float:
        return min((end.invoked for end in self.ends if end.commit), default=float("inf"))


class Timeline:
    """Indices over a history, each created once."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda operation: operation.invoked)
        self.sends = self.all(Send)
        self.polls = self.all(Poll)
        self.by_value = {send.value: send for send in self.sends}
        if len(self.by_value) != len(self.sends):
            raise BrokenHistoryError("a value was sent twice: values must be unique")

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [operation for operation in self.operations if isinstance(operation, kind)]

    @cached_property
    def transactions(self) -> dict[str, Transaction]:
        found: dict[str, Transaction] = {}
        for operation in self.operations:
            name = getattr(operation, "transaction", None)
            if name is None:
                continue
            transaction = found.setdefault(name, Transaction(name=name, began=operation.invoked))
            match operation:
                case Begin():
                    transaction.transactional_id = operation.transactional_id
                    transaction.protocol = operation.protocol
                case Send():
                    transaction.sends.append(operation)
                case Poll():
                    transaction.polls.append(operation)
                case Store():
                    transaction.stores.append(operation)
                case End():
                    transaction.ends.append(operation)
        return found

    def fate(self, send: Send) -> str:
        """Return the fate of a write; COMMITTED and ABORTED are certain."""
        if send.outcome == FAIL:
            return ABORTED
        decided = COMMITTED if send.transaction is None else self.transactions[send.transaction].fate
        return UNKNOWN if decided == COMMITTED and send.outcome != OK else decided

    def is_certain(self, send: Send, level: str) -> bool:
        """Return True if each reader of this level that passes the offset must find the value."""
        return send.outcome == OK if level == UNCOMMITTED else self.fate(send) == COMMITTED

    def known_since(self, send: Send) -> float:
        """Return the time since which a client knew that the write, which is certain, is committed."""
        if send.transaction is None:
            return send.completed
        commit = self.transactions[send.transaction].commit
        assert commit is not None
        return commit.completed

    def names(self, values: Iterable[str]) -> tuple[str, ...]:
        """Return the transactions that wrote these values."""
        sends = (self.by_value.get(value) for value in values)
        return tuple(sorted({send.transaction for send in sends if send is not None and send.transaction}))

    @cached_property
    def places(self) -> dict[str, set[Place]]:
        """Return the places of each value, at any level."""
        found: dict[str, set[Place]] = defaultdict(set)
        for poll in self.polls:
            for key, offset, value in poll.records:
                found[value].add((key, offset))
        return found

    @cached_property
    def seen(self) -> dict[str, set[str]]:
        """Return the values that readers of each level found."""
        return {
            level: {value for poll in self.polls if poll.level == level for _, _, value in poll.records}
            for level in LEVELS
        }

    @cached_property
    def highest(self) -> dict[str, dict[str, int]]:
        """Return the highest offset of each key that a reader of each level found."""
        found: dict[str, dict[str, int]] = {level: {} for level in LEVELS}
        for poll in self.polls:
            reached = found[poll.level]
            for key, offset, _ in poll.records:
                reached[key] = max(offset, reached.get(key, -1))
        return found

    @cached_property
    def ends(self) -> dict[str, dict[str, int]]:
        """Return the end of the final read of each key, by level; keys without one are missing."""
        found: dict[str, dict[str, int]] = {level: {} for level in LEVELS}
        for final in self.all(Final):
            found[final.level][final.key] = max(final.end, found[final.level].get(final.key, 0))
        return found

    @cached_property
    def log(self) -> dict[str, dict[str, list[tuple[int, str]]]]:
        """Return the known contents by level, key and offset: values that were read, and certain ones."""
        found: dict[str, dict[str, set[tuple[int, str]]]] = {level: defaultdict(set) for level in LEVELS}
        for poll in self.polls:
            for key, offset, value in poll.records:
                found[poll.level][key].add((offset, value))
        for send in self.sends:
            for level in LEVELS:
                if send.offset is not None and self.is_certain(send, level):
                    found[level][send.key].add((send.offset, send.value))
        return {level: {key: sorted(places) for key, places in keys.items()} for level, keys in found.items()}

    def writers(self, level: str, key: str) -> list[tuple[str, str]]:
        """Return pairs of consecutive transactions in a key's log."""
        sends = [self.by_value.get(value) for _, value in self.log[level].get(key, [])]
        names = [send.transaction for send in sends if send is not None and send.transaction is not None]
        return [(first, second) for first, second in pairwise(names) if first != second]
