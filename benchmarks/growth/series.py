"""Cost against size: medians, a line fitted to them, and whether the cost is flat or linear."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Series = Mapping[int, Sequence[float]]
"""Size -> one value per round."""

FLAT_AT_MOST = 1.15
"""The cost at the largest size over that at the smallest."""
LINEAR_AT_MOST = 1.5
"""The growth of the cost in the last step over that of the size."""
NOISE_OF_A_SMALL_COST = 0.05
"""A growth below this part of the cost at the smallest size says nothing."""


class Shape(Enum):
    """The growth that a figure may have."""

    FLAT = "flat"
    LINEAR = "linear"
    ANY = ""


class Verdict(Enum):
    HOLDS = "holds"
    MISSED = "missed"
    UNCLEAR = "unclear"
    """The rounds of the two sizes overlap, or nothing grows before the last size."""


class Line(NamedTuple):
    """Cost at no element, and what each element adds."""

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
    """Fit a line by least squares of the relative errors, so that each size counts alike. Needs two sizes."""
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
    """Judge a series by the shape that it may have. None where there is nothing to judge."""
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
    """Compare the last step's growth, without what the smallest size costs, with that of the size."""
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
    """Write a small cost in the unit that fits it: 0.0042 MB is 4.2 KB."""
    while abs(value) < 1 and unit in _SMALLER:
        value, unit = value * 1000, _SMALLER[unit]
    return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.3g} {unit}"


def unit_of(figure: str) -> str:
    """Return what stands behind a figure's last comma."""
    return figure.rpartition(", ")[2]
