"""Spark's Kafka connector in its own old PySpark; arguments: BOOTSTRAP TOPIC CONNECTOR LOCK DIRECTORY.

It writes, reads as a batch, and reads as a stream that stops and resumes at its checkpoint: with offsets from the admin
client, and with offsets from a consumer group as before Spark 3.1. It prints one line of JSON for each.
"""

import fcntl
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def write(spark, options, topic, first, count):
    rows = spark.range(first, first + count).selectExpr(
        "concat('key-', cast(id % 7 as string)) as key", "concat('value-', cast(id as string)) as value"
    )
    rows.write.format("kafka").options(**options).option("topic", topic).save()


def read_values(frame):
    return sorted(row[0] for row in frame.selectExpr("cast(value as string)").collect())


def stream_once(spark, options, topic, checkpoint, collected):
    """Read all available records since the checkpoint, and stop."""

    def keep(frame, _):
        collected.extend(read_values(frame))

    source = spark.readStream.format("kafka").options(**options).option("subscribe", topic)
    rows = source.option("startingOffsets", "earliest").load()
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination(60)


def main(bootstrap, topic, connector, lock, directory):
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", connector)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    with Path(lock).open("w") as held:  # two sessions must not download the connector at the same time
        fcntl.flock(held, fcntl.LOCK_EX)
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    options = {"kafka.bootstrap.servers": bootstrap}
    for way, deprecated in (("admin", "false"), ("group", "true")):
        spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", deprecated)
        own = f"{topic}-{way}"
        write(spark, options, own, 0, 30)
        batch = read_values(spark.read.format("kafka").options(**options).option("subscribe", own).load())
        first, second = [], []
        stream_once(spark, options, own, f"{directory}/{way}", first)
        write(spark, options, own, 30, 10)
        stream_once(spark, options, own, f"{directory}/{way}", second)
        print(json.dumps({"way": way, "batch": batch, "first": first, "second": second}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
