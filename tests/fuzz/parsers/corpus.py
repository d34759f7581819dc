"""Kept inputs of all targets: tests/fuzz/corpus/GROUP.txt has a line "target: base64" for each input.

A corpus is minimised: its inputs, the shortest first, each cover something that no earlier one covers.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.fuzz.parsers.measuring import Feature

FOLDER: Final = Path(__file__).parents[1] / "corpus"
INPUTS_MAX: Final = 40
"""Most kept inputs of a target."""

Inputs = dict[str, list[bytes]]


def read_group(group: str, folder: Path = FOLDER) -> Inputs:
    """Return the inputs of a group by target."""
    inputs: Inputs = defaultdict(list)
    path = folder / f"{group}.txt"
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, encoded = line.partition(":")
        inputs[name].append(base64.b64decode(encoded.strip(), validate=True))
    return dict(inputs)


def write_group(group: str, inputs: Mapping[str, Iterable[bytes]], folder: Path = FOLDER) -> None:
    """Replace the inputs of a group; the order of the lines depends on the inputs only."""
    lines = [
        f"{name}: {base64.b64encode(data).decode()}".rstrip()
        for name in sorted(inputs)
        for data in sorted(set(inputs[name]), key=lambda data: (len(data), data))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{group}.txt").write_text("".join(f"{line}\n" for line in lines))


def minimised(inputs: Mapping[bytes, frozenset[Feature]]) -> list[bytes]:
    """Return inputs, at most INPUTS_MAX, that together cover what all of them cover."""
    covered: set[Feature] = set()
    kept = []
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        if not inputs[data] <= covered:
            covered |= inputs[data]
            kept.append(data)
    return kept[:INPUTS_MAX]
