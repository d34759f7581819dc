"""The queries of the pipeline by name; each has its own checkpoint and its own position in the topic."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from kwire.spark import ExactlyOnceSink
from spark_jobs.dead_letters import dead_letters
from spark_jobs.pipeline.config import Config, seconds
from spark_jobs.pipeline.queries.counts import as_messages, windows
from spark_jobs.pipeline.queries.events import observed, unique_events
from spark_jobs.pipeline.queries.sinks import appended, claimed, merged
from spark_jobs.pipeline.schema import ORIGIN

RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def raw(records: DataFrame, config: Config) -> DataStreamWriter:
    """Every record as it was received."""
    return records.select(*RAW_COLUMNS).writeStream.foreachBatch(appended(config, "raw"))


def cleaned(records: DataFrame, config: Config) -> DataStreamWriter:
    """Every valid event once."""
    return unique_events(records, config).writeStream.foreachBatch(merged(config, "cleaned", "event_id"))


def counts(records: DataFrame, config: Config) -> DataStreamWriter:
    """Windows as a table and as a topic."""
    totals = windows(unique_events(records, config), config.events.window)
    sink = ExactlyOnceSink(config.producer, name=f"{config.name}-counts", topic=config.output, slots=config.slots)

    def write(frame: DataFrame, number: int) -> None:
        frame.persist()  # otherwise each of both sinks would compute the batch
        try:
            found, batch = claimed(config, "counts", frame, number)
            found.append(frame, batch)
            sink(as_messages(frame), number)
        finally:
            frame.unpersist()

    return totals.writeStream.foreachBatch(write)


def sessions(records: DataFrame, config: Config) -> DataStreamWriter:
    """Sessions of devices."""
    from spark_jobs.pipeline.queries.sessions import sessions as of_devices  # PySpark 3.5 has no such processors

    gap_ms = int(1000 * seconds(config.events.session_gap, "events.session_gap"))
    found = of_devices(unique_events(records, config), gap_ms)
    return found.writeStream.foreachBatch(appended(config, "sessions"))


def rejected(records: DataFrame, config: Config) -> DataStreamWriter:
    """Every record that is no event, with the reason."""
    letters = dead_letters(observed(records, config), ORIGIN)
    name = f"{config.name}-dead-letters"
    sink = ExactlyOnceSink(config.producer, name=name, topic=config.dead_letters, slots=config.slots)
    return letters.writeStream.foreachBatch(sink)


QUERIES: Mapping[str, Callable[[DataFrame, Config], DataStreamWriter]] = {
    "raw": raw,
    "cleaned": cleaned,
    "counts": counts,
    "sessions": sessions,
    "dead_letters": rejected,
}
