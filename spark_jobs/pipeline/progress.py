"""Figures of a query's progress, as Spark reports it."""

from collections.abc import Mapping
from typing import Any


def offsets_behind(progress: Mapping[str, Any]) -> int:
    """Return the number of offsets that the query has not read; Spark 3.5 does not report it."""
    metrics = (source.get("metrics") or {} for source in progress["sources"])
    return sum(int(float(each.get("maxOffsetsBehindLatest", 0))) for each in metrics)


def late_rows(progress: Mapping[str, Any]) -> int:
    """Return the number of rows that the watermark has dropped in this batch."""
    return sum(each["numRowsDroppedByWatermark"] for each in progress["stateOperators"])
