"""Which Spark, and the Kafka connector that goes with it.

The one place is the installed pyspark, which pyproject.toml pins for `make spark`: whoever installs another one gets
its connector. PySpark 4 is built for Scala 2.13.
"""

from importlib.metadata import version

SPARK_VERSION = version("pyspark")
KAFKA_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
