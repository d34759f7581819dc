"""Spark session with the Kafka connector, small enough for one machine unless spark-submit sets other values."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from spark_jobs.versions import KAFKA_CONNECTOR

#: Windows and timestamps are in UTC on every machine; the other settings keep a session on one machine cheap.
SETTINGS: Mapping[str, str] = {
    "spark.jars.packages": KAFKA_CONNECTOR,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_SETTINGS: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def new_session(name: str, master: str | None = "local[2]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark; the first start downloads the connector. With master None, spark-submit's master is used."""
    builder = SparkSession.builder.appName(name)
    chosen = dict(SETTINGS)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            chosen |= LOCAL_SETTINGS
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the same packages
    for key, value in (chosen | dict(settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
