"""Regular expressions that clients bring: matched in time that grows with pattern and text, and no faster.

Python's own engine tries one way after the other, which some patterns and texts keep busy for ever, and with it the
event loop. Here all ways are followed at once, character by character. What needs trying (back references, looking
ahead) or is not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

TEXT_MAX = 255
"""Characters of a text; longer ones match nothing."""
STATES_MAX = 1000
DEPTH_MAX = 50
REPEATS_MAX = 255

Test = Callable[[str], object]
Tree = tuple[Any, ...]
"""("any", trees), ("all", trees), ("repeat", tree, least, most), ("one", test); a most of -1 is no bound."""

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\\[])*\]|\\[dDwWsS]|\.")
_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]{1,3})(,?)([0-9]{0,3})\})\??")
_BOUNDS = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_LITERAL_ESCAPE = re.compile(r"\\[^a-zA-Z0-9]")
_SPECIAL = frozenset("\\[](){}*+?|.^$")
_SET_OPERATORS = ("&&", "--", "||", "~~")


class PatternRefusedError(Exception):
    """The pattern cannot be followed all ways at once, or is too large."""


def _one_of(characters: str) -> Test:
    """Whether a character is one of those; a single character keeps no engine busy."""
    if any(operator in characters for operator in _SET_OPERATORS):
        raise PatternRefusedError(characters)
    try:
        return re.compile(characters, re.DOTALL).fullmatch
    except re.error as error:
        raise PatternRefusedError(characters) from error


class Pattern:
    """A compiled pattern. A state consumes a character and has one successor, or consumes none and has any number."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._tests: list[Test | None] = [None]
        self._next: list[list[int]] = [[]]
        if text.startswith("^"):
            self._position = 1
        self._end = len(text) - (text.endswith("$") and not text.endswith("\\$"))
        tree = self._alternatives(0)
        if self._position < self._end:
            raise PatternRefusedError(text[self._position :])
        self._start = self._emit(tree, 0)

    def matches(self, text: str) -> bool:
        """Whether the whole text is one that the pattern describes."""
        if len(text) > TEXT_MAX:
            return False
        current = self._closure([self._start])
        for character in text:
            after = []
            for state in current:
                test = self._tests[state]
                if test is not None and test(character):
                    after += self._next[state]
            current = self._closure(after)
            if not current:
                return False
        return 0 in current

    def _closure(self, states: list[int]) -> set[int]:
        """The states, and those that are reached from them without a character."""
        reached: set[int] = set()
        open_states = list(states)
        while open_states:
            state = open_states.pop()
            if state not in reached:
                reached.add(state)
                if self._tests[state] is None:
                    open_states += self._next[state]
        return reached

    # --- reading

    def _alternatives(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise PatternRefusedError("too deep")
        found = [self._sequence(depth)]
        while self._text.startswith("|", self._position):
            self._position += 1
            found.append(self._sequence(depth))
        return ("any", found)

    def _sequence(self, depth: int) -> Tree:
        found = []
        while self._position < self._end and self._text[self._position] not in "|)":
            found.append(self._quantified(self._atom(depth)))
        return ("all", found)

    def _atom(self, depth: int) -> Tree:
        text, position = self._text, self._position
        if text[position] == "(":
            self._position += 3 if text.startswith("(?:", position) else 1
            inside = self._alternatives(depth + 1)
            if not self._text.startswith(")", self._position):
                raise PatternRefusedError(text)
            self._position += 1
            return inside
        if one := _CLASS.match(text, position):
            self._position = one.end()
            return ("one", _one_of(one.group()))
        if _LITERAL_ESCAPE.match(text, position):
            self._position += 2
            return ("one", text[position + 1].__eq__)
        if text[position] in _SPECIAL:
            raise PatternRefusedError(text[position:])
        self._position += 1
        return ("one", text[position].__eq__)

    def _quantified(self, atom: Tree) -> Tree:
        found = _QUANTIFIER.match(self._text, self._position)
        if found is None:
            return atom
        self._position = found.end()
        sign, least, comma, most = found.groups()
        if sign:
            return ("repeat", atom, *_BOUNDS[sign])
        low, high = int(least), int(most) if most else -1 if comma else int(least)
        if max(low, high) > REPEATS_MAX or -1 < high < low:
            raise PatternRefusedError(found.group())
        return ("repeat", atom, low, high)

    # --- from the tree to states, from the end to the beginning

    def _state(self, test: Test | None, following: list[int]) -> int:
        if len(self._tests) >= STATES_MAX:
            raise PatternRefusedError("too large")
        self._tests.append(test)
        self._next.append(following)
        return len(self._tests) - 1

    def _emit(self, tree: Tree, end: int) -> int:
        """The first state of what the tree describes and `end` follows."""
        kind, inside = tree[0], tree[1]
        if kind == "one":
            return self._state(inside, [end])
        if kind == "any":
            return self._state(None, [self._emit(each, end) for each in inside])
        if kind == "all":
            for each in reversed(inside):
                end = self._emit(each, end)
            return end
        return self._emit_repeat(inside, tree[2], tree[3], end)

    def _emit_repeat(self, inside: Tree, least: int, most: int, end: int) -> int:
        start = end
        if most < 0:
            start = self._state(None, [end])
            self._next[start].append(self._emit(inside, start))
        for _ in range(most - least):
            start = self._state(None, [self._emit(inside, start), end])
        for _ in range(least):
            start = self._emit(inside, start)
        return start
