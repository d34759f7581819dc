"""The events job: a topic of events in, counts per window out to a topic and to Parquet, bad records to a topic.

    python -m spark_jobs.events_job --bootstrap 127.0.0.1:9092 --input events --output counts \\
        --parquet DIR --checkpoint DIR [--once]

--once processes the available events and ends. Otherwise the job runs until SIGTERM or Ctrl-C, and then finishes its
current batch. After a restart it continues from its checkpoint. A batch that is repeated after a crash overwrites its
own part of the Parquet directory, so each count is there once. Topics receive each count at least once, as Spark's
Kafka sink guarantees. A window's counts are written when the watermark has passed its end: the newest windows wait for
later events.
"""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.dead_letters import dead_letters
from spark_jobs.events import as_messages, counts, parsed
from spark_jobs.session import new_session

logger = logging.getLogger("spark_jobs.events_job")

POLL_SECONDS = 0.2
#: Time that a stop waits for current batches; a batch that takes longer is repeated after a restart.
STOP_SECONDS_MAX = 60.0


@dataclass(slots=True, kw_only=True, frozen=True)
class Options:
    """Options of the command line, also for programs that start the job themselves."""

    bootstrap: str
    input: str
    output: str
    dead_letters: str
    parquet: Path
    checkpoint: Path
    window: str = "1 minute"
    watermark: str = "30 seconds"
    trigger: str = "5 seconds"
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    once: bool = False


DEFAULTS = {each.name: each.default for each in fields(Options)}


def parse(arguments: Sequence[str] | None) -> tuple[Options, str | None]:
    """Return the job's options and Spark's master."""
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="events_job", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...", help="Kafka's brokers")
    parser.add_argument("--input", required=True, metavar="TOPIC", help="the events")
    parser.add_argument("--output", required=True, metavar="TOPIC", help="the counts")
    parser.add_argument("--dead-letters", metavar="TOPIC", help="what is no event; default INPUT-dead-letters")
    parser.add_argument("--parquet", required=True, type=Path, metavar="DIR", help="the counts as files")
    parser.add_argument("--checkpoint", required=True, type=Path, metavar="DIR", help="how far the job has come")
    parser.add_argument("--window", default=DEFAULTS["window"], help="length of a window (default: %(default)s)")
    parser.add_argument(
        "--watermark", default=DEFAULTS["watermark"], help="how late events may be (default: %(default)s)"
    )
    parser.add_argument("--trigger", default=DEFAULTS["trigger"], help="time between batches (default: %(default)s)")
    parser.add_argument("--starting-offsets", default=DEFAULTS["starting_offsets"], help="for a new checkpoint")
    parser.add_argument("--max-offsets-per-trigger", type=int, metavar="N", help="records in one batch at most")
    parser.add_argument("--once", action="store_true", help="work through what is there, then end")
    parser.add_argument("--master", default="local[2]", help="Spark's master; '' for spark-submit's")
    chosen = vars(parser.parse_args(arguments))
    master = chosen.pop("master") or None
    chosen["dead_letters"] = chosen["dead_letters"] or f"{chosen['input']}-dead-letters"
    return Options(**chosen), master


def records(spark: SparkSession, options: Options) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.input)
        .option("startingOffsets", options.starting_offsets)
        .option("includeHeaders", "true")
        # Read committed transactions only: records of aborted transactions are not counted.
        .option("kafka.isolation.level", "read_committed")
    )
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    return reader.load()


def start(spark: SparkSession, options: Options) -> list[StreamingQuery]:
    """Start both queries; each keeps its own position in the input topic."""
    source = records(spark, options)
    totals = counts(source, window=options.window, watermark=options.watermark)
    writers = {
        "counts": totals.writeStream.foreachBatch(count_writer(options)).outputMode("append"),
        "dead-letters": dead_letters(parsed(source), ("topic", "partition", "offset"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("topic", options.dead_letters),
    }
    trigger = {"availableNow": True} if options.once else {"processingTime": options.trigger}
    return [
        writer.queryName(name).option("checkpointLocation", str(options.checkpoint / name)).trigger(**trigger).start()
        for name, writer in writers.items()
    ]


def count_writer(options: Options) -> Callable[[DataFrame, int], None]:
    """Return a function that writes a batch of counts to both sinks; its cache avoids computing the batch twice."""

    def write(totals: DataFrame, batch: int) -> None:
        totals = totals.coalesce(1).sortWithinPartitions("window_start", "kind").persist()
        try:
            if totals.isEmpty():
                return
            totals.write.mode("overwrite").parquet(str(options.parquet / f"batch={batch}"))
            messages = as_messages(totals).write.format("kafka")
            messages.option("kafka.bootstrap.servers", options.bootstrap).option("topic", options.output).save()
        finally:
            totals.unpersist()

    return write


def wait(queries: Sequence[StreamingQuery], stopping: threading.Event) -> None:
    """Wait until all queries have ended or a stop is requested. Raises the exception of a failed query."""
    while any(query.isActive for query in queries) and not stopping.wait(POLL_SECONDS):
        raise_failure(queries)
    raise_failure(queries)


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


def main(arguments: Sequence[str] | None = None) -> int:
    options, master = parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logger.setLevel(logging.INFO)
    spark = new_session("kwire-events", master)
    stopping = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    queries = start(spark, options)
    logger.info("counting %s into %s and %s", options.input, options.output, options.parquet)
    try:
        wait(queries, stopping)
    except StreamingQueryException as error:
        logger.error("the job failed: %s", error)  # noqa: TRY400 the message already contains the JVM's stack
        return 1
    finally:
        stop(queries)
        spark.stop()
    logger.info("stopped" if stopping.is_set() else "done: everything that was there is counted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
