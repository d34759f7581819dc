"""Helpers: write records with kafka-python and read them with Spark, both as comparable rows."""

from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import functions as f

from compat_tests.kafka_python import client as kafka_python
from compat_tests.kafka_python.client import producer, send_all

SECONDS = 60


class Row(NamedTuple):
    """Record, as it was sent or as Spark's source returns it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def create_topic(bootstrap, topic, partitions=1, **configs):
    """Create a topic without retention: its records have an old fixed timestamp and would expire during a test."""
    kafka_python.create_topic(bootstrap, topic, partitions, **{"retention_ms": -1} | configs)


def sent(bootstrap, topic, records, partition=0, **settings):
    """Send the records and return the rows that Spark must return for them."""
    with producer(bootstrap, **settings) as client:
        placed = send_all(client, topic, records, partition)
    return [
        Row(topic, each.partition, each.offset, record.key, record.value, record.timestamp_ms)
        for each, record in zip(placed, records, strict=True)
    ]


def read_committed(bootstrap, topic):
    """Return all committed records of a topic, in order of partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False)
    try:
        places = [TopicPartition(topic, each) for each in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def remove_last_commit(checkpoint):
    """Remove Spark's commit of a query's last batch, as if the driver had died between the sink's write and it."""
    commits = [each for each in (checkpoint / "commits").iterdir() if each.name.isdigit()]
    last = max(commits, key=lambda each: int(each.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def topic_with(bootstrap, topic, *partitions):
    """Create a topic with one partition for each list of records; return all rows."""
    create_topic(bootstrap, topic, len(partitions))
    return [row for number, records in enumerate(partitions) for row in sent(bootstrap, topic, records, number)]


def source(reader, bootstrap, **options):
    """Return a data frame over topics from spark.read or spark.readStream."""
    return reader.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options).load()


def to_topic(writer, bootstrap):
    """Return a writer to topics from frame.write or frame.writeStream."""
    return writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)


def rows(frame):
    """Return the sorted rows of a frame with the source's columns; a duplicate record appears twice."""
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
    """Stream from a topic into Parquet files: each start continues from the checkpoint of the previous one."""

    def __init__(self, spark, directory):
        self.spark = spark
        self.data = str(directory / "data")
        self.checkpoint = str(directory / "checkpoint")

    def start(self, bootstrap, **options):
        frame = source(self.spark.readStream, bootstrap, startingOffsets="earliest", **options)
        return self.writer(frame).start(self.data)

    def take_available(self, bootstrap, **options):
        """Read all available records in the batches that the options make of them; return the ended query."""
        frame = source(self.spark.readStream, bootstrap, startingOffsets="earliest", **options)
        query = self.writer(frame).trigger(availableNow=True).start(self.data)
        assert query.awaitTermination(SECONDS), "the query did not end"
        return query

    def writer(self, frame):
        return frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)

    def rows(self):
        return rows(self.spark.read.parquet(self.data))
