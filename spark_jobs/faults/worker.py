"""Process of a Spark driver: it runs the queries of a job, and returns the rows of the tables.

The campaign starts it, sends it calls over a socket, and kills it. Rounds whose faults do not kill it share one.
"""

import argparse
import logging
from multiprocessing.connection import Connection
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from kwire.spark import ExactlyOnceSink
from spark_jobs.faults.job import COPIES, Job
from spark_jobs.faults.plants import PLANTS
from spark_jobs.faults.points import Armed, install
from spark_jobs.pipeline.run import one_line, start
from spark_jobs.pipeline.source import stream
from spark_jobs.pipeline.tables.formats import own_session, settings_of_all, table
from spark_jobs.session import new_session
from spark_jobs.versions import all_packages, formats

SETTINGS = {
    # Drivers are short-lived, and their batches are small.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "spark_jobs.faults.daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    **settings_of_all(formats()),
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.metricsEnabled": "false",
}
PACKAGES = ",".join(all_packages())
SECONDS_MAX = 600


def start_copies(spark: SparkSession, job: Job) -> StreamingQuery:
    """Start the query that writes each record with its place to a topic."""
    place = f.concat_ws(" ", "partition", "offset").cast("binary")
    copies = stream(spark, job.config).select("key", f.concat(place, f.lit(b" "), "value").alias("value"), "offset")
    sink = ExactlyOnceSink(
        job.config.producer, name=f"{job.config.name}-copies", topic=job.copies, slots=2, order_by=["offset"]
    )
    writer = copies.writeStream.foreachBatch(sink).queryName(f"{job.config.name}-{COPIES}")
    return writer.option("checkpointLocation", f"{job.config.checkpoint}/{COPIES}").trigger(availableNow=True).start()


def run(spark: SparkSession, job: Job) -> list[str]:
    """Run the queries until all have ended; return the failures of those that failed."""
    queries, failures = [], []
    try:
        queries = [*start(spark, job.config, available_now=True), start_copies(spark, job)]
        for query in queries:
            try:
                if not query.awaitTermination(SECONDS_MAX):
                    failures.append(f"{query.name} did not end within {SECONDS_MAX} s")
            except PySparkException as error:
                failures.append(f"{query.name}: {one_line(error)}")
    finally:
        for query in queries:
            query.stop()
    return failures


def rows_of(spark: SparkSession, job: Job) -> dict[str, list[Any]]:
    """Return the rows of the job's tables, as the check needs them."""
    columns: dict[str, list[Any]] = {
        "raw": ["partition", "offset", f.col("value").cast("binary")],
        "cleaned": ["event_id"],
        "counts": [f.unix_seconds("window_start"), "kind", "count", "minimum", "maximum", "sum"],
    }
    found: dict[str, list[Any]] = {}
    for name in job.config.queries:
        if name in columns and (stored := table(spark, job.config.tables, name)).exists():
            found[name] = [_plain(row) for row in _all(stored.read(), columns[name])]
    return found


def _all(frame: DataFrame, columns: list[Any]) -> list[Any]:
    return list(frame.select(*columns).collect())


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(bytes(each) if isinstance(each, bytearray) else each for each in row)


def serve(connection: Connection, armed: Armed, jars: str) -> None:
    """Answer calls until the campaign closes the connection."""
    needed = {"spark.jars.packages": "", "spark.jars": jars} if jars else {"spark.jars.packages": PACKAGES}
    spark = new_session("kwire-faults", settings=SETTINGS | needed)
    connection.send(spark.sparkContext.getConf().get("spark.jars"))
    while True:
        try:
            call, job = connection.recv()
        except EOFError:
            break
        armed.point = job.point
        session = own_session(spark, job.config.tables)
        connection.send({"run": run, "rows": rows_of}[call](session, job))
    spark.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("descriptor", type=int, help="socket of the campaign")
    arguments.add_argument("--jars", default="", help="by default Spark resolves the packages")
    arguments.add_argument("--plant", choices=sorted(PLANTS))
    given = arguments.parse_args()
    logging.basicConfig(level=logging.ERROR)
    armed = Armed()
    if given.plant:
        PLANTS[given.plant]()
    install(armed)
    serve(Connection(given.descriptor), armed, given.jars)


if __name__ == "__main__":
    main()
