"""Histories as text, for tests: a line for each operation, one after another unless times are given.

    p begin T1 of payments v1     p send a=x 0 in T1     p send a=y info     p commit T1     p abort T1 fail
    p send a=y 4 from x
    r poll a:0=x a:1=y                r poll uncommitted subscribe rebalanced in T2 a:0=x
    r assign a b                      r final a 3                r final uncommitted a 3
    m own group 4 a b                 m lose group 4 a           m store group 4 a=7 fail        m restore group a=7
    - healed                          - hold payments            - hanging a 3 5

A line may begin with the times of invocation and completion, as in `3-8`; otherwise it uses its line number. The
outcome comes last, and is ok by default; a number after `send` is the acknowledged offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.history.operations import (
    ASSIGN,
    COMMITTED,
    FAIL,
    INFO,
    NEVER,
    OK,
    SUBSCRIBE,
    UNCOMMITTED,
    Assign,
    Begin,
    End,
    Fault,
    Final,
    Hanging,
    Healed,
    Operation,
    Own,
    Poll,
    Record,
    Restore,
    Send,
    Store,
)

TIMES = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)?\s+(.*)")
SECOND = 1_000_000_000
Words = list[str]


def history(text: str) -> list[Operation]:
    """Return the operations of the lines; text after a # is a comment. Times are seconds."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    made = [_operation(line, number) for number, line in enumerate(lines, 1) if line]
    return sorted(made, key=lambda operation: operation.invoked)


def _operation(line: str, number: int) -> Operation:
    invoked, completed = float(number), number + 0.5
    if timed := TIMES.fullmatch(line):
        invoked, completed = float(timed[1]), float(timed[2]) if timed[2] else NEVER
        line = timed[3]
    process, verb, *words = line.split()
    known: dict[str, Any] = {"process": process} | _named(words, "in", "transaction") | _named(words, "from", "source")
    outcome = words.pop() if words and words[-1] in {OK, FAIL, INFO} else OK
    made = VERBS[verb](words, known)
    made.invoked, made.outcome = invoked * SECOND, outcome if verb != "lose" else INFO
    made.completed = NEVER if outcome == INFO else completed * SECOND
    return made


def _named(words: Words, word: str, name: str) -> dict[str, str]:
    """Remove the word and the word after it from the list, and return the latter."""
    if word not in words:
        return {}
    place = words.index(word)
    value = words[place + 1]
    del words[place : place + 2]
    return {name: value}


def _send(words: Words, known: dict[str, Any]) -> Operation:
    key, _, value = words[0].partition("=")
    return Send(**known, key=key, value=value, offset=int(words[1]) if words[1:] else None)


def _begin(words: Words, known: dict[str, Any]) -> Operation:
    return Begin(**known, transaction=words[0], transactional_id=words[2], protocol=words[3])


def _poll(words: Words, known: dict[str, Any]) -> Operation:
    return Poll(
        **known,
        records=[_record(word) for word in words if ":" in word],
        level=_level(words),
        mode=SUBSCRIBE if SUBSCRIBE in words else ASSIGN,
        rebalanced="rebalanced" in words,
    )


def _record(word: str) -> Record:
    key, offset, value = re.split("[:=]", word)
    return key, int(offset), value


def _level(words: Words) -> str:
    return UNCOMMITTED if UNCOMMITTED in words else COMMITTED


def _final(words: Words, known: dict[str, Any]) -> Operation:
    return Final(**known, key=words[-2], end=int(words[-1]), level=_level(words))


def _own(words: Words, known: dict[str, Any]) -> Operation:
    return Own(**known, group=words[0], generation=int(words[1]), keys=words[2:])


def _store(words: Words, known: dict[str, Any]) -> Operation:
    generation = int(words.pop(1)) if words[1].lstrip("-").isdigit() else -1
    return Store(**known, group=words[0], generation=generation, offsets=_offsets(words[1:]))


def _offsets(words: Words) -> dict[str, int]:
    return {key: int(offset) for key, _, offset in (word.partition("=") for word in words)}


def _hanging(words: Words, known: dict[str, Any]) -> Operation:
    return Hanging(**known, key=words[0], last_stable_offset=int(words[1]), end=int(words[2]))


VERBS: dict[str, Callable[[Words, dict[str, Any]], Operation]] = {
    "send": _send,
    "begin": _begin,
    "commit": lambda words, known: End(**known, transaction=words[0], commit=True),
    "abort": lambda words, known: End(**known, transaction=words[0], commit=False),
    "poll": _poll,
    "assign": lambda words, known: Assign(**known, keys=words),
    "own": _own,
    "lose": _own,
    "store": _store,
    "restore": lambda words, known: Restore(**known, group=words[0], offsets=_offsets(words[1:])),
    "final": _final,
    "hanging": _hanging,
    "hold": lambda words, known: Fault(**known, what="hold", transactional_id=words[0]),
    "healed": lambda words, known: Healed(**known),
}
