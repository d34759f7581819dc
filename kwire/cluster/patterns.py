"""Regular expressions of clients: bounded time for compiling and matching, with matching done in steps.

Python's own engine tries one path after another. Some patterns and texts keep it, and thus the event loop, busy
forever. It also needs up to a second to compile a pattern of 1,000 characters. This module follows all paths at once,
character by character. It rejects patterns that need backtracking (back references, lookaround) or are too large.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from kwire.chunks import Pieces

PATTERN_MAX = 1000
"""Maximum characters of a pattern."""
TEXT_MAX = 255
"""Maximum characters of a text; longer ones match nothing."""
STATES_MAX = 300
"""Maximum states of a pattern: about one for each character that it describes, repetitions included."""
WORK_AT_ONCE = 10_000
"""Number of states entered in one step of the event loop: about 2 ms."""
WORK_OF_MATCH = 10
"""Fixed work of a match, in addition to its states."""
WORK_OF_CHARACTER = 5
"""Work of compiling one character of a pattern."""
DEPTH_MAX = 50
REPEATS_MAX = 255

Test = Callable[[str], object]
Tree = tuple[Any, ...]
"""Syntax tree: ("any", trees), ("all", trees), ("repeat", tree, least, most), ("one", test); most = -1: no limit."""

_CLASS = re.compile(r"\[(\^?)(\]?(?:\\.|[^\]\\\[])*)\]", re.DOTALL)
_ITEM = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)|(.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]{1,3})(,?)([0-9]{0,3})\})\??")
_BOUNDS = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_LITERAL_ESCAPE = re.compile(r"\\[^a-zA-Z0-9]")
_SPECIAL = frozenset("\\[](){}*+?|.^$")
_SET_OPERATORS = ("&&", "--", "||", "~~")
_CATEGORIES: dict[str, Test] = {letter: re.compile(rf"\{letter}").fullmatch for letter in "dDwWsS"}


class PatternRejectedError(Exception):
    """The pattern needs backtracking, contains unknown syntax, or is too large."""


def _any_character(_: str) -> bool:
    return True


class _OneOf:
    """Test for a character class; it finds a character in the sorted ranges by bisection."""

    __slots__ = ("_bounds", "_categories", "_is_negated")

    def __init__(self, ranges: Iterable[tuple[int, int]], categories: Iterable[str], *, is_negated: bool) -> None:
        self._bounds: list[int] = []
        for first, last in sorted(ranges):
            if self._bounds and first <= self._bounds[-1]:
                self._bounds[-1] = max(self._bounds[-1], last + 1)
            else:
                self._bounds += [first, last + 1]
        self._categories = [_CATEGORIES[letter] for letter in sorted(set(categories))]
        self._is_negated = is_negated

    def __call__(self, character: str) -> bool:
        is_inside = bool(bisect_right(self._bounds, ord(character)) % 2)
        if not is_inside and self._categories:
            is_inside = any(test(character) for test in self._categories)
        return is_inside != self._is_negated


def _one_of(items: str, *, is_negated: bool) -> Test:
    """Return the test of a class with these items. Raises PatternRejectedError."""
    if any(operator in items for operator in _SET_OPERATORS):
        raise PatternRejectedError(items)
    ranges: list[tuple[int, int]] = []
    categories: list[str] = []
    position = 0
    while position < len(items):
        first, position = _item(items, position)
        last = first
        if items.startswith("-", position) and position + 1 < len(items):
            last, position = _item(items, position + 1)
            if len(first) > 1 or len(last) > 1 or last < first:
                raise PatternRejectedError(items)
        if len(first) > 1:
            categories.append(first[1])
        else:
            ranges.append((ord(first), ord(last)))
    return _OneOf(ranges, categories, is_negated=is_negated)


def _item(items: str, position: int) -> tuple[str, int]:
    r"""Return the character or category (such as \d) at a position, and the position of the next item."""
    found = _ITEM.match(items, position)
    if found is None:
        raise PatternRejectedError(items)
    by_two, by_four, escaped, plain = found.groups()
    if by_two or by_four:
        return chr(int(by_two or by_four, 16)), found.end()
    if escaped in _CATEGORIES:
        return "\\" + escaped, found.end()
    if escaped and escaped.isascii() and escaped.isalnum():
        if escaped not in _CONTROLS:
            raise PatternRejectedError(items)
        return _CONTROLS[escaped], found.end()
    return escaped or plain, found.end()


class Pattern:
    """Compiled pattern. A state consumes one character and has one successor, or consumes none and has any number."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_MAX:
            raise PatternRejectedError(f"longer than {PATTERN_MAX} characters")
        self._text = text
        self._position = 0
        self._tests: list[Test | None] = [None]
        self._next: list[list[int]] = [[]]
        if text.startswith("^"):
            self._position = 1
        self._end = len(text) - (text.endswith("$") and not text.endswith("\\$"))
        tree = self._alternatives(0)
        if self._position < self._end:
            raise PatternRejectedError(text[self._position :])
        self._start = self._emit(tree, 0)

    def begin(self) -> set[int]:
        """Return the states before the first character."""
        return self._closure([self._start])

    def after(self, states: set[int], character: str) -> set[int]:
        """Return the states after a character."""
        reached = []
        for state in states:
            test = self._tests[state]
            if test is not None and test(character):
                reached += self._next[state]
        return self._closure(reached)

    def _closure(self, states: list[int]) -> set[int]:
        """Return the states, and those that can be reached from them without a character."""
        reached: set[int] = set()
        open_states = list(states)
        while open_states:
            state = open_states.pop()
            if state not in reached:
                reached.add(state)
                if self._tests[state] is None:
                    open_states += self._next[state]
        return reached

    # --- parsing

    def _alternatives(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise PatternRejectedError("too deep")
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
                raise PatternRejectedError(text)
            self._position += 1
            return inside
        if text[position] == ".":
            self._position += 1
            return ("one", _any_character)
        if text[position] == "\\" and (category := _CATEGORIES.get(text[position + 1 : position + 2])):
            self._position += 2
            return ("one", category)
        if one := _CLASS.match(text, position):
            self._position = one.end()
            return ("one", _one_of(one.group(2), is_negated=bool(one.group(1))))
        if _LITERAL_ESCAPE.match(text, position):
            self._position += 2
            return ("one", text[position + 1].__eq__)
        if text[position] in _SPECIAL:
            raise PatternRejectedError(text[position:])
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
            raise PatternRejectedError(found.group())
        return ("repeat", atom, low, high)

    # --- from the tree to states, built from the end to the beginning

    def _state(self, test: Test | None, following: list[int]) -> int:
        if len(self._tests) >= STATES_MAX:
            raise PatternRejectedError("too large")
        self._tests.append(test)
        self._next.append(following)
        return len(self._tests) - 1

    def _emit(self, tree: Tree, end: int) -> int:
        """Return the first state of a subtree that is followed by the state `end`."""
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


class Matcher:
    """Compiler and matcher that works in steps: it yields after WORK_AT_ONCE, counted over one whole response."""

    def __init__(self) -> None:
        self._work = 0

    def spend(self, work: int) -> Pieces[None]:
        """Count work, and yield if the current step has done enough."""
        self._work += work
        if self._work >= WORK_AT_ONCE:
            self._work = 0
            yield

    def compile(self, text: str) -> Pieces[Pattern]:
        """Return the compiled pattern. Raises PatternRejectedError."""
        yield from self.spend(WORK_OF_CHARACTER * min(len(text), PATTERN_MAX))
        return Pattern(text)

    def matches(self, pattern: Pattern, text: str) -> Pieces[bool]:
        """Return True if the pattern matches the whole text."""
        if len(text) > TEXT_MAX:
            return False
        yield from self.spend(WORK_OF_MATCH)
        states = pattern.begin()
        for character in text:
            before = len(states)
            states = pattern.after(states, character)
            if not states:
                return False
            self._work += before + len(states)
            if self._work >= WORK_AT_ONCE:
                self._work = 0
                yield
        return 0 in states
