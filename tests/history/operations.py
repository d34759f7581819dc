"""Operations of a history: requests and results of clients, each with its begin and end.

A history is recorded as lines of JSON, two for each operation: the invocation and the outcome. `ok` and `fail` are
certain; `info` means that the operation may have taken effect, or may still do so: a timeout, a lost connection, a dead
client.
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
Acquired = tuple[str, int, int]
"""(key, offset, delivery count)."""
OK, FAIL, INFO = "ok", "fail", "info"
COMMITTED, UNCOMMITTED = "committed", "uncommitted"
ASSIGN, SUBSCRIBE = "assign", "subscribe"
NEVER = math.inf


@dataclass(slots=True, kw_only=True)
class Operation:
    """Operation of a process. A process is one incarnation of a client: after a restart it has another name."""

    process: str
    invoked: float = 0
    """Time in nanoseconds of the machine's monotonic clock, which all processes share."""
    completed: float = NEVER
    """NEVER if unknown: with info, the operation may take effect at any time."""
    outcome: str = INFO


@dataclass(slots=True, kw_only=True)
class Send(Operation):
    """Send of a record; values are unique in the history."""

    key: str
    value: str
    transaction: str | None = None
    offset: int | None = None
    source: str | None = None
    """Value of which it is the only copy."""


@dataclass(slots=True, kw_only=True)
class Begin(Operation):
    """Begin of a transaction: its transactional id and its protocol."""

    transaction: str
    transactional_id: str
    protocol: str = ""
    """v1, or v2 (KIP-890)."""


@dataclass(slots=True, kw_only=True)
class End(Operation):
    """Request to end a transaction."""

    transaction: str
    commit: bool


@dataclass(slots=True, kw_only=True)
class Poll(Operation):
    """Poll that returned records in this order."""

    records: list[Record] = field(default_factory=list)
    level: str = COMMITTED
    mode: str = ASSIGN
    transaction: str | None = None
    """Open transaction of the process."""
    rebalanced: bool = False
    """True if partitions were assigned or revoked during the poll."""


@dataclass(slots=True, kw_only=True)
class Assign(Operation):
    """Assignment of keys: the process may start at any offset; its earlier reads do not count."""

    keys: list[str]


@dataclass(slots=True, kw_only=True)
class Own(Operation):
    """Ownership of keys by a group member from `invoked` until `completed`. ok: given back; info: lost."""

    group: str
    keys: list[str]
    generation: int = -1
    """Generation in which the member received the keys; -1 if its client does not show it."""


@dataclass(slots=True, kw_only=True)
class Store(Operation):
    """Commit of a group's offsets."""

    group: str
    offsets: dict[str, int]
    generation: int = -1
    transaction: str | None = None


@dataclass(slots=True, kw_only=True)
class Restore(Operation):
    """Fetch of a group's committed offsets; -1 means none."""

    group: str
    offsets: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Acquire(Operation):
    """Records that a member of a share group received, which the broker acquired for it after `invoked`."""

    group: str
    records: list[Acquired] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Unreadable(Operation):
    """Records that a member of a share group acquired, but could not decode."""

    group: str
    records: list[tuple[str, int, str]] = field(default_factory=list)
    """(key, offset, error)."""


@dataclass(slots=True, kw_only=True)
class Acknowledge(Operation):
    """Acknowledgement of records of a key by a member of a share group."""

    group: str
    key: str
    offsets: list[int]
    acknowledge_type: int
    """1 accepts, 2 releases, 3 rejects, as in requests."""


@dataclass(slots=True, kw_only=True)
class Drained(Operation):
    """End of a share group's work: every record of the keys must be complete."""

    group: str
    keys: list[str]


@dataclass(slots=True, kw_only=True)
class Final(Operation):
    """Final read: after all faults, this process has read the key up to this offset, which is the end for its level."""

    key: str
    end: int
    level: str = COMMITTED


@dataclass(slots=True, kw_only=True)
class Hanging(Operation):
    """Hanging transaction: after all faults, the last stable offset of the key stayed below the end."""

    key: str
    last_stable_offset: int
    end: int


@dataclass(slots=True, kw_only=True)
class Fault(Operation):
    """Fault of the broker, the proxy or a client."""

    what: str
    transactional_id: str = ""
    """Transactional id of a held request."""


@dataclass(slots=True, kw_only=True)
class Healed(Operation):
    """End of all faults."""


KINDS: dict[str, type[Operation]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Send, Begin, End, Poll, Assign, Own, Store, Restore),
        *(Acquire, Unreadable, Acknowledge, Drained, Final, Hanging, Fault, Healed),
    )
}


class BrokenHistoryError(Exception):
    """Raised if lines are not a valid history: the recorder is wrong, not the broker."""


def operations(lines: Iterable[str]) -> list[Operation]:
    """Pair each invocation with its outcome; return them in the order of invocations."""
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
    elif isinstance(made, Acquire):
        made.records = [(key, offset, count) for key, offset, count in made.records]
    return made


def read(*paths: Path) -> list[Operation]:
    """Read the journals of several processes as one history. The last line of a killed process may be incomplete."""
    return operations(line for path in paths for line in _whole_lines(path))


def _whole_lines(path: Path) -> Iterator[str]:
    with path.open() as file:
        yield from (line for line in file if line.endswith("\n"))
