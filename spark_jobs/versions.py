"""Versions of Spark and of the packages from Maven Central that fit it, in one place.

The version comes from the installed pyspark: another pyspark gets its own packages. PySpark 4 is built for Scala 2.13.

    spark-submit --packages "$(python -m spark_jobs.versions delta)" ...
"""

import sys
from importlib.metadata import version

SPARK_VERSION = version("pyspark")
SPARK_LINE = ".".join(SPARK_VERSION.split(".")[:2])
"""Major and minor version, which the packages of tables are built for."""
SCALA = "2.12" if SPARK_LINE.startswith("3.") else "2.13"
KAFKA_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{SPARK_VERSION}"
DELTA = {
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.0": "io.delta:delta-spark_2.13:4.0.0",
}
ICEBERG = {
    "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
}


def packages(table_format: str) -> list[str]:
    """Return the packages of a job with tables of a format. Raises KeyError if the format has none for this Spark."""
    of_tables: list[dict[str, str]] = {"parquet": [], "delta": [DELTA], "iceberg": [ICEBERG]}[table_format]
    return [KAFKA_CONNECTOR, *(found[SPARK_LINE] for found in of_tables)]


def all_packages() -> list[str]:
    """Return the packages of all formats that this Spark has, for tests."""
    formats = ["parquet", *("delta",) * (SPARK_LINE in DELTA), *("iceberg",) * (SPARK_LINE in ICEBERG)]
    return sorted({each for table_format in formats for each in packages(table_format)})


if __name__ == "__main__":
    print(",".join(packages(*sys.argv[1:] or ["parquet"])))
