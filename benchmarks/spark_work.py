"""Measurements of Spark against one cluster, in Spark's environment; prints the figures as JSON.

.venv-spark/bin/python -m benchmarks.spark_work HOST:PORT,... TOPIC PREFIX
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from kwire.spark import ExactlyOnceSink
from spark_jobs.session import new_session

SINK_ROWS_MAX = 1_000_000
PARTITIONS = 6
LATENCY_SECONDS = 20.0
LATENCY_RATE = 500
WARM_SECONDS = 5.0
WARM_SHARE = 0.01
Figures = dict[str, float]


class Work:
    """Measurements of one cluster."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, scratch: Path) -> None:
        self.spark, self.bootstrap, self.topic, self.scratch = spark, bootstrap, topic, scratch
        self._number = 0
        self._ends = end_offsets(bootstrap, topic)

    def batch(self, share: float = 1.0) -> float:
        """Return rows per second of a batch that reads a share of the topic."""
        ends = {each: int(end * share) for each, end in self._ends.items()}
        frame = self._reader(self.spark.read).option("endingOffsets", json.dumps({self.topic: ends})).load()
        return sum(ends.values()) / seconds(lambda: frame.write.format("noop").mode("overwrite").save())

    def stream(self) -> float:
        """Return rows per second of a stream that reads the topic once."""
        frame = self._reader(self.spark.readStream).option("startingOffsets", "earliest").load()
        return sum(self._ends.values()) / seconds(lambda: self._run(frame.writeStream.format("noop")))

    def at_least_once(self) -> float:
        """Return rows per second of a stream through Spark's own sink."""
        (frame, rows), output = self._last(), self._output()
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return rows / seconds(lambda: self._run(writer.option("topic", output)))

    def exactly_once(self) -> float:
        """Return rows per second of a stream through the exactly-once sink."""
        (frame, rows), output = self._last(), self._output()
        sink = ExactlyOnceSink({"bootstrap.servers": self.bootstrap}, name=output, topic=output, slots=2)
        return rows / seconds(lambda: self._run(frame.writeStream.foreachBatch(sink)))

    def latency(self) -> tuple[float, float]:
        """Return the median and the 99th percentile, in ms, from a record's send to its arrival behind a stream."""
        begin, end = self._output(), self._output()
        frame = (
            self.spark.readStream.format("kafka")
            .options(**{"kafka.bootstrap.servers": self.bootstrap, "subscribe": begin, "startingOffsets": "latest"})
            .load()
        )
        writer = frame.select("value").writeStream.format("kafka").option("topic", end)
        writer = writer.option("kafka.bootstrap.servers", self.bootstrap)
        query = writer.option("checkpointLocation", self._checkpoint()).start()
        taken: list[float] = []
        done = threading.Event()
        reader = threading.Thread(target=self._take, args=(end, taken, done))
        reader.start()
        try:
            self._send(begin)
        finally:
            done.set()
            reader.join()
            query.stop()
        ordered = sorted(taken)
        return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]

    def _send(self, topic: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        pause, begun = threading.Event(), time.monotonic()
        for number in range(int(LATENCY_RATE * (LATENCY_SECONDS + WARM_SECONDS))):
            pause.wait(max(0.0, begun + number / LATENCY_RATE - time.monotonic()))
            producer.produce(topic, str(time.time_ns()).encode())
            producer.poll(0)
        producer.flush()
        pause.wait(WARM_SECONDS)

    def _take(self, topic: str, taken: list[float], done: threading.Event) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        warm_until = time.monotonic() + 2 * WARM_SECONDS
        while not done.is_set():
            arrived = [each for each in consumer.consume(1000, 0.05) if each.error() is None]
            if time.monotonic() > warm_until:
                taken += [(time.time_ns() - int(each.value())) / 1e6 for each in arrived]
        consumer.close()

    def _last(self) -> tuple[DataFrame, int]:
        """Return a stream of the last rows of the topic as one batch, and their number."""
        starts = {each: max(0, end - SINK_ROWS_MAX // len(self._ends)) for each, end in self._ends.items()}
        reader = self._reader(self.spark.readStream).option("startingOffsets", json.dumps({self.topic: starts}))
        return reader.load().select("key", "value"), sum(self._ends.values()) - sum(starts.values())

    def _reader(self, reader):
        return reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).option("subscribe", self.topic)

    def _run(self, writer) -> None:
        query = writer.option("checkpointLocation", self._checkpoint()).trigger(availableNow=True).start()
        query.awaitTermination()

    def _checkpoint(self) -> str:
        self._number += 1
        return str(self.scratch / f"checkpoint-{self._number}")

    def _output(self) -> str:
        self._number += 1
        name = f"{self.topic}-out-{self._number}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(30)
        return name


def end_offsets(bootstrap: str, topic: str) -> dict[str, int]:
    """Return the end of each partition, by its number as text."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        return {str(each): consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in partitions}
    finally:
        consumer.close()


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    bootstrap, topic, prefix = sys.argv[1:]
    spark = new_session("kwire-bench")
    with tempfile.TemporaryDirectory(prefix="kwire-bench-spark-") as scratch:
        work = Work(spark, bootstrap, topic, Path(scratch))
        work.batch(share=WARM_SHARE)
        figures: Figures = {f"{prefix} batch, rows/s": work.batch(), f"{prefix} stream, rows/s": work.stream()}
        if prefix == "Spark":
            figures["Spark sink at least once, rows/s"] = work.at_least_once()
            figures["Spark sink exactly once, rows/s"] = work.exactly_once()
            figures["Spark end to end p50, ms"], figures["Spark end to end p99, ms"] = work.latency()
    spark.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
