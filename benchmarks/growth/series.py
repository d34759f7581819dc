"""Cost against size: medians, a fitted line, and the verdict whether the cost is flat or linear."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Series = Mapping[int, Sequence[float]]
"""Size -> one value per round."""

FLAT_AT_MOST = 1.15
"""Bound of a flat cost: the cost at the largest size divided by that at the smallest."""
LINEAR_AT_MOST = 1.5
"""Bound of a linear cost: its growth in the last step divided by the growth of the size."""
NOISE_OF_A_SMALL_COST = 0.05
"""Share of the cost at the smallest size; a growth below it is noise."""


class Shape(Enum):
    """Growth that a figure may have."""

    FLAT = "flat"
    LINEAR = "linear"
    ANY = ""


class Verdict(Enum):
    HOLDS = "holds"
    MISSED = "missed"
    UNCLEAR = "unclear"
    """The rounds of the smallest and largest size overlap, or the cost grows only in the last step."""


class Line(NamedTuple):
    """Fitted line: the cost without elements, and the cost that each element adds."""

    base: float
    each: float


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    factor: float
    """Flat: cost at the largest size over the smallest. Linear: growth of the cost over that of the size, last step."""


def medians(series: Series) -> dict[int, float]:
    """Return size -> median, sizes ascending."""
    return {size: statistics.median(series[size]) for size in sorted(series) if series[size]}


def fit(points: Mapping[int, float]) -> Line:
    """Fit a line by least squares of the relative errors, so that each size has the same weight. Needs two sizes."""
    weights = {size: 1 / max(cost, 1e-12) ** 2 for size, cost in points.items()}
    total = sum(weights.values())
    mean_size = sum(weights[size] * size for size in points) / total
    mean_cost = sum(weights[size] * cost for size, cost in points.items()) / total
    spread = sum(weights[size] * (size - mean_size) ** 2 for size in points)
    each = sum(weights[size] * (size - mean_size) * (cost - mean_cost) for size, cost in points.items()) / spread
    return Line(mean_cost - each * mean_size, each)


def growth(points: Mapping[int, float]) -> float:
    """Return the cost at the largest size over that at the smallest."""
    least = points[min(points)]
    return points[max(points)] / least if least else 1.0


def judge(series: Series, shape: Shape) -> Judgement | None:
    """Return the verdict on a series for its permitted shape; None if there are too few sizes or any growth is fine."""
    points = medians(series)
    if shape is Shape.FLAT and len(points) >= 2:
        return _judge_flat(series, points)
    if shape is Shape.LINEAR and len(points) >= 3:
        return _judge_linear(points)
    return None


def _judge_flat(series: Series, points: Mapping[int, float]) -> Judgement:
    factor = growth(points)
    if factor <= FLAT_AT_MOST:
        return Judgement(Verdict.HOLDS, factor)
    is_apart = min(series[max(points)]) > max(series[min(points)])
    return Judgement(Verdict.MISSED if is_apart else Verdict.UNCLEAR, factor)


def _judge_linear(points: Mapping[int, float]) -> Judgement:
    """Compare the cost's growth in the last step, beyond the cost at the smallest size, with the growth of the size."""
    smallest, *_, before, last = points
    grown_before, grown = points[before] - points[smallest], points[last] - points[smallest]
    if grown <= NOISE_OF_A_SMALL_COST * points[smallest]:
        return Judgement(Verdict.HOLDS, 0.0)
    if grown_before <= NOISE_OF_A_SMALL_COST * points[smallest]:
        return Judgement(Verdict.UNCLEAR, float("inf"))
    factor = grown / grown_before / (last / before)
    return Judgement(Verdict.HOLDS if factor <= LINEAR_AT_MOST else Verdict.MISSED, factor)


_SMALLER = {"s": "ms", "ms": "us", "us": "ns", "MB": "KB", "KB": "B", "ms/s": "us/s", "us/s": "ns/s"}


def with_unit(value: float, unit: str) -> str:
    """Format a small cost in a smaller unit: 0.0042 MB is 4.2 KB."""
    while abs(value) < 1 and unit in _SMALLER:
        value, unit = value * 1000, _SMALLER[unit]
    return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.3g} {unit}"


def unit_of(figure: str) -> str:
    """Return a figure's unit: the text after its last comma."""
    return figure.rpartition(", ")[2]
