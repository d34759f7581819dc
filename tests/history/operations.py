"""What clients did and saw: the operations of a history, each with when it began and ended.

A history is recorded as lines of JSON, two for each operation: what was invoked, and what came of it. `ok` and `fail`
are certain; `info` means that it may have happened, or may happen yet: a timeout, a lost connection, a dead client.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

Record = tuple[str, int, str]
"""(key, offset, value); a key is a partition of a topic."""
OK, FAIL, INFO = "ok", "fail", "info"
COMMITTED, UNCOMMITTED = "committed", "uncommitted"
ASSIGN, SUBSCRIBE = "assign", "subscribe"
NEVER = math.inf


@dataclass(slots=True, kw_only=True)
class Operation:
    """One thing that a process did. A process is one instance of a client: after a restart it has another name."""

    process: str
    invoked: float = 0
    """Nanoseconds of the machine's monotonic clock, which all processes share."""
    completed: float = NEVER
    """NEVER if nobody knows: with info the operation may take effect at any time."""
    outcome: str = INFO


@dataclass(slots=True, kw_only=True)
class Send(Operation):
    """A record was sent; values are unique over the history."""

    key: str
    value: str
    transaction: str | None = None
    offset: int | None = None
    source: str | None = None
    """The value that it is the only copy of."""


@dataclass(slots=True, kw_only=True)
class Begin(Operation):
    """What is known of a transaction beyond its name: whose it is, and by which protocol."""

    transaction: str
    transactional_id: str
    protocol: str = ""
    """v1, or v2 (KIP-890)"""


@dataclass(slots=True, kw_only=True)
class End(Operation):
    """A transaction's end was asked for."""

    transaction: str
    commit: bool


@dataclass(slots=True, kw_only=True)
class Poll(Operation):
    """Records came back, in this order."""

    records: list[Record] = field(default_factory=list)
    level: str = COMMITTED
    mode: str = ASSIGN
    transaction: str | None = None
    """The transaction that the process had open."""
    rebalanced: bool = False
    """Partitions came or went during the poll."""


@dataclass(slots=True, kw_only=True)
class Assign(Operation):
    """From here on the process reads these keys from wherever it likes: what it read before is no measure."""

    keys: list[str]


@dataclass(slots=True, kw_only=True)
class Own(Operation):
    """A member of a group owned keys from `invoked` until `completed`. ok: it gave them back; info: they were lost."""

    group: str
    generation: int
    keys: list[str]


@dataclass(slots=True, kw_only=True)
class Store(Operation):
    """Offsets of a group were committed."""

    group: str
    offsets: dict[str, int]
    generation: int = -1
    transaction: str | None = None


@dataclass(slots=True, kw_only=True)
class Restore(Operation):
    """Committed offsets of a group were asked for; -1 is none."""

    group: str
    offsets: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Final(Operation):
    """After the healing this process has read the key up to this offset, which is the end for its level."""

    key: str
    end: int
    level: str = COMMITTED


@dataclass(slots=True, kw_only=True)
class Hanging(Operation):
    """After the healing the last stable offset of the key stood still below the end."""

    key: str
    last_stable_offset: int
    end: int


@dataclass(slots=True, kw_only=True)
class Fault(Operation):
    """Something was done to the broker, the wire or a client."""

    what: str
    transactional_id: str = ""
    """Whose request was held back, where that is what was done."""


@dataclass(slots=True, kw_only=True)
class Healed(Operation):
    """From here on there are no faults."""


KINDS: dict[str, type[Operation]] = {
    kind.__name__.lower(): kind
    for kind in (Send, Begin, End, Poll, Assign, Own, Store, Restore, Final, Hanging, Fault, Healed)
}


class BrokenHistoryError(Exception):
    """The lines are no history: the recorder is wrong, not the broker."""


def operations(lines: Iterable[str]) -> list[Operation]:
    """Pairs each invocation with its completion; ordered by invocation."""
    begun: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        event = json.loads(line)
        place = event.pop("process"), event.pop("op")
        kind, time = event.pop("type"), event.pop("time")
        if kind == "invoke":
            if place in begun:
                raise BrokenHistoryError(f"{place} was invoked twice")
            begun[place] = event | {"invoked": time}
            continue
        if place not in begun or "outcome" in begun[place]:
            raise BrokenHistoryError(f"{place} completes without having begun: {line}")
        begun[place] |= event | {"outcome": kind}
        if kind != INFO or begun[place]["f"] == "own":
            begun[place]["completed"] = time
    made = [_made(process, known) for (process, _), known in begun.items()]
    return sorted(made, key=lambda operation: operation.invoked)


def _made(process: str, known: dict[str, Any]) -> Operation:
    kind = KINDS[known.pop("f")]
    names = {each.name for each in fields(kind)}
    made = kind(process=process, **{name: value for name, value in known.items() if name in names})
    if isinstance(made, Poll):
        made.records = [(key, offset, value) for key, offset, value in made.records]
    return made


def read(*paths: Path) -> list[Operation]:
    """The journals of several processes as one history. The last line of a killed one may be cut off."""
    return operations(line for path in paths for line in _whole_lines(path))


def _whole_lines(path: Path) -> Iterator[str]:
    with path.open() as file:
        yield from (line for line in file if line.endswith("\n"))
