"""Report of code that no simulated seed runs: by file, with the tests that run it, or a reason for each function."""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

REASONS: Final = Path(__file__).with_name("coverage_reasons.txt")
LEFT_OUT: Final = ("kwire/log/inspection/*",)
"""Code that only `kwire log` uses."""
SEEDS: Final = "seeds"

Branch = tuple[int, int]
"""A line and a possible next line; 0 is the end of the function."""


@dataclass(slots=True)
class Covered:
    """Lines and branches of a file that one kind of run executed."""

    lines: set[int] = field(default_factory=set)
    branches: set[Branch] = field(default_factory=set)


class Found:
    """Coverage by file of all shares in a directory: by seeds, and by each folder of tests."""

    def __init__(self, directory: Path) -> None:
        self.seeds: Counter[str] = Counter()
        self.lines: dict[str, set[int]] = defaultdict(set)
        self.branches: dict[str, set[Branch]] = defaultdict(set)
        self.covered: dict[str, dict[str, Covered]] = defaultdict(lambda: defaultdict(Covered))
        for path in sorted(directory.glob("*.json")):
            kind, _, name = path.stem.partition("-")
            if kind == SEEDS:
                scenario, first, last = name.split("-")
                self.seeds[scenario] += int(last) - int(first) + 1
            self._add(SEEDS if kind == SEEDS else name, json.loads(path.read_text())["files"])

    def _add(self, runner: str, files: dict[str, dict[str, Any]]) -> None:
        for name, measured in files.items():
            if any(fnmatchcase(name, pattern) for pattern in LEFT_OUT):
                continue
            branches = {(line, following) for line, following in measured["executed_branches"]}
            missing = {(line, following) for line, following in measured["missing_branches"]}
            self.lines[name].update(measured["executed_lines"], measured["missing_lines"])
            self.branches[name] |= branches | missing
            covered = self.covered[name][runner]
            covered.lines.update(measured["executed_lines"])
            covered.branches |= branches

    def by_seeds(self, name: str) -> Covered:
        return self.covered[name].get(SEEDS, Covered())

    def by_tests(self, name: str) -> Covered:
        covered = Covered()
        for runner, each in self.covered[name].items():
            if runner != SEEDS:
                covered.lines |= each.lines
                covered.branches |= each.branches
        return covered

    def runners(self, name: str) -> list[str]:
        """Return the folders of tests that run code of a file that no seed runs, sorted by amount."""
        missing = self.lines[name] - self.by_seeds(name).lines
        counts = Counter({runner: len(each.lines & missing) for runner, each in self.covered[name].items()})
        return [runner for runner, count in counts.most_common() if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Code of one function that neither a seed nor a test runs."""

    place: str
    lines: tuple[int, ...]
    branches: tuple[Branch, ...]
    """Branches whose first line is executed."""


def left_over(found: Found, root: Path) -> Iterator[Left]:
    for name in sorted(found.lines):
        ran = found.by_seeds(name).lines | found.by_tests(name).lines
        lines = found.lines[name] - ran
        taken = found.by_seeds(name).branches | found.by_tests(name).branches
        untaken = found.branches[name] - taken
        branches = {(line, then) for line, then in untaken if line in ran and then not in lines}
        functions = functions_of((root / name).read_text())
        by_function: dict[str, tuple[set[int], set[Branch]]] = defaultdict(lambda: (set(), set()))
        for line in lines:
            by_function[functions.get(line, "(module)")][0].add(line)
        for branch in branches:
            by_function[functions.get(branch[0], "(module)")][1].add(branch)
        for function in sorted(by_function):
            own_lines, own_branches = by_function[function]
            yield Left(place=f"{name}:{function}", lines=(*sorted(own_lines),), branches=(*sorted(own_branches),))


def functions_of(source: str) -> dict[int, str]:
    """Return the innermost function of each line."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{name}.{child.name}" if name else child.name
                if not isinstance(child, ast.ClassDef):
                    for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                        found[line] = inner
            visit(child, inner)

    visit(ast.parse(source), "")
    return found


def reasons() -> dict[str, dict[str, str]]:
    """Return the sections of the file in order: patterns of a file, or of file:function, with their reasons."""
    sections: dict[str, dict[str, str]] = defaultdict(dict)
    section = ""
    for row in REASONS.read_text().splitlines():
        if row.startswith("["):
            section = row.strip("[]")
        elif row and not row.startswith("#"):
            pattern, _, reason = row.partition(" ")
            sections[section][pattern] = reason.strip()
    return sections


def _reason(place: str, known: dict[str, str]) -> str:
    return next((reason for pattern, reason in known.items() if fnmatchcase(place, pattern)), "")


def write_page(path: Path, commit: str, directory: Path, root: Path) -> None:
    """Write docs/evidence/coverage.md."""
    path.write_text("".join(f"{line}\n" for line in _page(commit, Found(directory), root)))


def _page(commit: str, found: Found, root: Path) -> Iterator[str]:
    known = reasons()
    seeds = " and ".join(f"{count} seeds of the {scenario}" for scenario, count in sorted(found.seeds.items()))
    yield "# Code that no simulated seed runs"
    yield ""
    yield f"Written by `make campaign COVERAGE=500`, at {commit}: {seeds}, then the other tests. Reasons are those of"
    yield "tests/campaign/coverage_reasons.txt. What other processes run is not measured."
    yield ""
    yield from _totals(found)
    left = list(left_over(found, root))
    yield from _left_rows(left, known["neither"])
    yield ""
    yield "## What tests run and no seed"
    yield ""
    yield "| file | lines | branches | tests | why no seed |"
    yield "|---|---|---|---|---|"
    for name in sorted(found.lines):
        ran, tested = found.by_seeds(name), found.by_tests(name)
        lines = sorted((found.lines[name] - ran.lines) & tested.lines)
        branches = (found.branches[name] - ran.branches) & tested.branches
        if lines or branches:
            tests = ", ".join(found.runners(name)[:3])
            reason = _reason(name, known["seeds"])
            yield f"| {_short(name)} | {ranges(lines)} | {len(branches)} | {tests} | {reason} |"


def _totals(found: Found) -> Iterator[str]:
    rows: dict[str, list[int]] = {}
    for name in found.lines:
        ran, tested = found.by_seeds(name), found.by_tests(name)
        row = rows.setdefault(name.split("/")[1], [0] * 8)
        for place, everything, by_seeds, by_tests in (
            (0, found.lines[name], ran.lines, tested.lines),
            (4, found.branches[name], ran.branches, tested.branches),
        ):
            row[place] += len(everything)
            row[place + 1] += len(by_seeds)
            row[place + 2] += len(by_tests - by_seeds)
            row[place + 3] += len(everything - by_seeds - by_tests)
    kinds = "by seeds | by tests only | by neither"
    yield f"| package | lines | {kinds} | branches | {kinds} |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for package, row in [*sorted(rows.items()), ("all", [sum(column) for column in zip(*rows.values(), strict=True)])]:
        yield f"| {package} | {' | '.join(f'{count:,}' for count in row)} |"


def _left_rows(left: Sequence[Left], known: dict[str, str]) -> Iterator[str]:
    unexplained = [each for each in left if not _reason(each.place, known)]
    yield ""
    yield f"## What neither runs: {len(left)} functions, {len(unexplained)} without a reason"
    yield ""
    yield "| function | lines | branches | reason |"
    yield "|---|---|---|---|"
    for each in sorted(left, key=lambda one: bool(_reason(one.place, known))):
        branches = ", ".join(f"{line} to {then or 'the end'}" for line, then in each.branches)
        yield f"| {_short(each.place)} | {ranges(each.lines)} | {branches} | {_reason(each.place, known)} |"


def _short(name: str) -> str:
    return name.removeprefix("kwire/")


def ranges(lines: Iterable[int]) -> str:
    """Return line ranges as text: 3, 5-7 for 3, 5, 6, 7."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][-1] + 1:
            found[-1][1:] = [line]
        else:
            found.append([line])
    return ", ".join("-".join(map(str, each)) for each in found)
