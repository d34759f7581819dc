"""Growth of a sampled quantity: the slope of its least-squares line."""

from __future__ import annotations

from collections.abc import Sequence

HOUR_SECONDS = 3600.0


def growth_an_hour(seconds: Sequence[float], values: Sequence[float]) -> float:
    """Return the growth in an hour as a share of the mean (0.01 is one per cent); 0 for fewer than two samples."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = sum(seconds) / count, sum(values) / count
    spread = sum((second - middle) ** 2 for second in seconds)
    if not spread or not mean:
        return 0.0
    slope = sum((second - middle) * (value - mean) for second, value in zip(seconds, values, strict=True)) / spread
    return slope * HOUR_SECONDS / mean
