"""Points of a batch at which the driver can be killed: Spark would commit the batch later, and so repeats it.

They are in the driver's process only; the sinks and tables themselves have no such points.
"""

import os
import signal
from typing import Any, NamedTuple

from kwire.spark import ExactlyOnceSink
from spark_jobs.pipeline.tables.delta import DeltaTable
from spark_jobs.pipeline.tables.iceberg import IcebergTable
from spark_jobs.pipeline.tables.parquet import ParquetTable
from spark_jobs.pipeline.tables.table import Batch


class Point(NamedTuple):
    """Point at which the driver is killed."""

    place: str
    """table or sink, and begins or ends, such as "sink ends"."""
    name: str
    """End of the name of the table or sink."""
    batch: int
    """First batch at which the driver is killed."""


class Armed:
    """The point of the current job."""

    point: Point | None = None

    def reach(self, place: str, name: str, batch: int) -> None:
        """Kill the driver, Python and JVM, at the point."""
        point = self.point
        if point and place == point.place and name.endswith(point.name) and batch >= point.batch:
            os.killpg(os.getpgrp(), signal.SIGKILL)


def install(armed: Armed) -> None:
    """Make the sink and all tables of this process reach their points."""
    write = ExactlyOnceSink.__call__

    def call(sink: ExactlyOnceSink, frame: Any, number: int) -> None:
        name = sink._name  # noqa: SLF001 only the campaign needs it
        armed.reach("sink begins", name, number)
        write(sink, frame, number)
        armed.reach("sink ends", name, number)

    ExactlyOnceSink.__call__ = call  # type: ignore[method-assign]
    for kind in (ParquetTable, DeltaTable, IcebergTable):
        for method in ("append", "merge"):
            setattr(kind, method, _reaching(armed, getattr(kind, method)))


def _reaching(armed: Armed, method: Any) -> Any:
    def call(table: Any, rows: Any, batch: Batch, *key: Any) -> None:
        method(table, rows, batch, *key)
        armed.reach("table ends", table.name, batch.number)

    return call
