"""Versions of PySpark, and of what fits each from PyPI and from Maven Central, in one place.

The packages follow the installed pyspark. PySpark 3.5 is built for Scala 2.12, PySpark 4 for Scala 2.13.

    spark-submit --packages "$(python -m spark_jobs.versions packages delta)" ...
    pip install $(python -m spark_jobs.versions requirements 3.5)
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """Minor version of Spark with what belongs to it."""

    spark: str
    """Newest version whose Kafka connector Maven Central has with all its dependencies."""
    delta: str
    iceberg: str | None
    """Runtime of Iceberg; None if there is none for this Spark."""
    requirements: Sequence[str]
    """Python packages besides pyspark; a package without a version here has the newest one."""
    scala: str = "2.13"


LINES = {
    "3.5": Line(
        "3.5.7",
        "io.delta:delta-spark_2.12:3.3.3",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
        ("delta-spark==3.3.3", "pandas<3"),
        "2.12",
    ),
    "4.0": Line(
        "4.0.0",
        "io.delta:delta-spark_2.13:4.0.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        ("delta-spark==4.0.0",),
    ),
    "4.2": Line("4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0", None, ("delta-spark==4.4.0",)),
}
DEFAULT = "4.0"
"""Line of the whole suite; the others have a short one, the row matrix."""


def spark_version() -> str:
    """Return the version of the installed pyspark."""
    import pyspark  # `requirements` is called where none is installed

    return str(pyspark.__version__)


def line() -> Line:
    """Return the line of the installed pyspark. Raises KeyError if the project does not know it."""
    return LINES[".".join(spark_version().split(".")[:2])]


def packages(table_format: str) -> list[str]:
    """Return the packages of a job with tables of a format. Raises KeyError if the format has none for this Spark."""
    found = line()
    connector = f"org.apache.spark:spark-sql-kafka-0-10_{found.scala}:{spark_version()}"
    of_tables: dict[str, Sequence[str]] = {"parquet": (), "delta": (found.delta,)}
    if found.iceberg is not None:
        of_tables["iceberg"] = (found.iceberg,)
    return [connector, *of_tables[table_format]]


def formats() -> list[str]:
    """Return the formats that have packages for this Spark."""
    return ["parquet", "delta", *("iceberg",) * (line().iceberg is not None)]


def all_packages() -> list[str]:
    """Return the packages of all formats that this Spark has, for tests."""
    return sorted({each for table_format in formats() for each in packages(table_format)})


def requirements(name: str = DEFAULT) -> list[str]:
    """Return what pip installs for a line. Raises KeyError."""
    found = LINES[name]
    return [f"pyspark=={found.spark}", *found.requirements]


if __name__ == "__main__":
    commands: dict[str, tuple[Callable[..., list[str]], str]] = {
        "packages": (packages, ","),
        "requirements": (requirements, " "),
    }
    command, separator = commands[sys.argv[1]]
    print(separator.join(command(*sys.argv[2:])))
