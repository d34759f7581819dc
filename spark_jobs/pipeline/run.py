"""The running pipeline: starts the queries, says how far they are, and stops them between two batches."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import start_http_server
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kwire.spark import ProgressListener
from spark_jobs.pipeline.backfill import handover, starting
from spark_jobs.pipeline.config import Config, ConfigError
from spark_jobs.pipeline.hadoop import Place
from spark_jobs.pipeline.progress import late_rows, offsets_behind
from spark_jobs.pipeline.queries.all import QUERIES
from spark_jobs.pipeline.source import stream
from spark_jobs.pipeline.tables.formats import FORMATS
from spark_jobs.session import new_session

logger = logging.getLogger("spark_jobs.pipeline")

POLL_SECONDS = 0.2
STOP_SECONDS_MAX = 60.0
"""Time that a stop waits for current batches; a batch that takes longer is repeated after a restart."""
SAID_EVERY_SECONDS = 10.0
CHECKPOINT_FILE = "pipeline.json"


def claim_checkpoint(spark: SparkSession, config: Config) -> None:
    """Note in a new checkpoint whose it is. Raises ConfigError if it is another pipeline's."""
    place = Place(spark, config.checkpoint) / CHECKPOINT_FILE
    own = {"name": config.name, "input": config.input}
    text = place.read_text()
    if text is None:
        place.create(json.dumps(own))
    elif (found := json.loads(text)) != own:
        raise ConfigError(
            f"checkpoint {config.checkpoint} belongs to pipeline {found['name']} with input {found['input']}"
        )


def start(spark: SparkSession, config: Config, *, available_now: bool) -> list[StreamingQuery]:
    """Start the queries; each keeps its own position in the input topic. Raises ConfigError."""
    claim_checkpoint(spark, config)
    trigger = {"availableNow": True} if available_now else {"processingTime": config.trigger}
    over, queries = handover(spark, config), []
    for name in config.queries:
        writer = QUERIES[name](stream(spark, config, starting(over, name)), config)
        named = writer.queryName(f"{config.name}-{name}").option("checkpointLocation", f"{config.checkpoint}/{name}")
        queries.append(named.trigger(**trigger).start())
    return queries


def wait(queries: Sequence[StreamingQuery], stopping: threading.Event) -> None:
    """Wait until all queries have ended or a stop is requested. Raises the exception of a failed query."""
    waited = 0.0
    while any(query.isActive for query in queries) and not stopping.wait(POLL_SECONDS):
        raise_failure(queries)
        waited += POLL_SECONDS
        if waited >= SAID_EVERY_SECONDS:
            waited = 0.0
            for query in queries:
                logger.info("%s", said(query))
    raise_failure(queries)


def said(query: StreamingQuery) -> str:
    """Return the newest progress of a query in one line."""
    progress = query.lastProgress
    if progress is None:
        return f"{query.name}: {query.status['message']}"
    late = late_rows(progress)
    text = (
        f"{query.name}: batch {progress['batchId']}, {progress['numInputRows']} rows at "
        f"{progress['processedRowsPerSecond'] or 0:.0f} per second, {offsets_behind(progress)} offsets behind"
    )
    return f"{text}, {late} late events dropped" if late else text


def raise_failure(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        if not query.isActive:
            query.awaitTermination()


def stop(queries: Sequence[StreamingQuery]) -> None:
    """Stop each query between two batches if it gets there within the time limit."""
    pause = threading.Event()
    for query in queries:
        for _ in range(int(STOP_SECONDS_MAX / POLL_SECONDS)):
            if not (query.isActive and query.status["isTriggerActive"]):
                break
            pause.wait(POLL_SECONDS)
        query.stop()


@contextmanager
def session(config: Config) -> Iterator[SparkSession]:
    """Start Spark with the packages and the settings of the tables' format, and stop it. Raises ConfigError."""
    settings = FORMATS[config.tables.format]().settings(config.tables.path)
    try:
        spark = new_session(config.name, table_format=config.tables.format, defaults=settings)
    except KeyError as error:
        raise ConfigError(f"tables.format: {config.tables.format} has no package for this version of Spark") from error
    try:
        yield spark
    finally:
        spark.stop()


def run(spark: SparkSession, config: Config, stopping: threading.Event, *, available_now: bool) -> None:
    """Run the pipeline. Raises ConfigError, or the exception of a failed query."""
    queries: list[StreamingQuery] = []
    try:
        spark.streams.addListener(ProgressListener(config.producer))
        if config.metrics_port is not None:
            start_http_server(config.metrics_port)
        queries = start(spark, config, available_now=available_now)
        logger.info("%s reads %s: %s", config.name, config.input, ", ".join(config.queries))
        wait(queries, stopping)
    finally:
        stop(queries)


def one_line(error: PySparkException) -> str:
    """Return the cause of a failed query, without the JVM's stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.startswith(("spark_jobs.", "kwire.", "cimpl."))]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (python or causes or lines)[-1 if python or causes else 0].removeprefix("Caused by: ")
