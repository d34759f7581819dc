"""Spark session of a job. Settings that the user has given, by spark-submit or in a file, stay.

A job names no master: spark-submit does, or SPARK_MASTER, or it runs on this machine with two threads.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kwire.properties_files import read_properties
from spark_jobs.versions import packages

LOCAL_MASTER = "local[2]"
DEFAULTS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
"""Windows are in UTC on every machine; state is in RocksDB, whose checkpoints contain changes only."""
LOCAL: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""Defaults of a session on one machine."""


def new_session(
    name: str,
    settings: Mapping[str, str] | None = None,
    *,
    table_format: str = "parquet",
    defaults: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or return the session that exists. `settings` come before what the user has given.

    Without spark-submit, the first start downloads the packages of `table_format`.
    """
    given = given_settings()
    chosen: dict[str, str] = {"spark.app.name": name, **DEFAULTS, **(defaults or {})}
    master = given.get("spark.master") or os.environ.get("SPARK_MASTER") or LOCAL_MASTER
    chosen["spark.master"] = master
    if not _is_submitted():
        chosen["spark.jars.packages"] = ",".join(packages(table_format))
    if master.startswith("local"):
        chosen |= LOCAL
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the same packages
    builder = SparkSession.builder
    for key, value in chosen.items():
        if key not in given:
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def given_settings() -> Mapping[str, str]:
    """Return the settings of spark-submit, or else those of spark-defaults.conf."""
    if _is_submitted():
        SparkContext._ensure_initialized()  # noqa: SLF001 before this, a SparkConf is empty
        return dict(SparkConf().getAll())
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    return read_properties(path.read_text(encoding="utf-8")) if path.exists() else {}


def _is_submitted() -> bool:
    """Return True under spark-submit, which has started the JVM and chosen its packages."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
