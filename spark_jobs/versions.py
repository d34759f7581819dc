"""Versions of Spark and of the Kafka connector that belongs to it.

The version comes from the installed pyspark, which pyproject.toml pins for `make spark`: another pyspark gets its own
connector. PySpark 4 is built for Scala 2.13.
"""

from importlib.metadata import version

SPARK_VERSION = version("pyspark")
KAFKA_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
