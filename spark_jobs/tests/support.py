"""Records into a topic by kafka-python, rows out of it by Spark, in one shape that compares."""

from typing import NamedTuple

from pyspark.sql import functions as f

from compat_tests.kafka_python import client as kafka_python
from compat_tests.kafka_python.client import producer, send_all

SECONDS = 60


class Row(NamedTuple):
    """One record, as it was sent or as Spark's source shows it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def create_topic(bootstrap, topic, partitions=1, **configs):
    """A topic that keeps its records: theirs is a fixed moment, which retention would find too old in mid-test."""
    kafka_python.create_topic(bootstrap, topic, partitions, **{"retention_ms": -1} | configs)


def sent(bootstrap, topic, records, partition=0, **settings):
    """Send the records and return the rows that Spark must show for them."""
    with producer(bootstrap, **settings) as client:
        placed = send_all(client, topic, records, partition)
    return [
        Row(topic, each.partition, each.offset, record.key, record.value, record.timestamp_ms)
        for each, record in zip(placed, records, strict=True)
    ]


def topic_with(bootstrap, topic, *partitions):
    """Make a topic with one partition for each list of records; return all rows."""
    create_topic(bootstrap, topic, len(partitions))
    return [row for number, records in enumerate(partitions) for row in sent(bootstrap, topic, records, number)]


def source(reader, bootstrap, **options):
    """A data frame over topics from spark.read or spark.readStream."""
    return reader.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options).load()


def to_topic(writer, bootstrap):
    """A writer to topics from frame.write or frame.writeStream."""
    return writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)


def rows(frame):
    """What a frame with the source's columns holds, sorted; twice the same record shows twice."""
    columns = ("topic", "partition", "offset", "key", "value", f.unix_millis("timestamp"))
    return sorted(
        (
            Row(each[0], each[1], each[2], as_bytes(each[3]), as_bytes(each[4]), each[5])
            for each in taken(frame, columns)
        ),
        key=lambda row: row[:3],
    )


def taken(frame, columns):
    return frame.select(*columns).collect()


def as_bytes(value):
    return None if value is None else bytes(value)


class Files:
    """A stream from a topic into Parquet files: each start goes on from the checkpoint of the last one."""

    def __init__(self, spark, directory):
        self.spark = spark
        self.data = str(directory / "data")
        self.checkpoint = str(directory / "checkpoint")

    def start(self, bootstrap, **options):
        frame = source(self.spark.readStream, bootstrap, startingOffsets="earliest", **options)
        return self.writer(frame).start(self.data)

    def take_available(self, bootstrap, **options):
        """Read what is there now in as many batches as the options make of it; return the ended query."""
        frame = source(self.spark.readStream, bootstrap, startingOffsets="earliest", **options)
        query = self.writer(frame).trigger(availableNow=True).start(self.data)
        assert query.awaitTermination(SECONDS), "the query did not end"
        return query

    def writer(self, frame):
        return frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)

    def rows(self):
        return rows(self.spark.read.parquet(self.data))
