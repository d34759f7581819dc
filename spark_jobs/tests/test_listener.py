"""Progress of a query for other tools: metrics, and the shadow group that Kafka's tools show."""

import pytest
from kafka import KafkaAdminClient
from prometheus_client import CollectorRegistry
from pyspark.sql import functions as f

from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually
from kwire.spark import ProgressListener
from spark_jobs.tests.support import SECONDS, create_topic, sent, source

COUNT = 25


@pytest.fixture
def listener(spark, bootstrap):
    made = ProgressListener({"bootstrap.servers": bootstrap}, registry=CollectorRegistry())
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)


def run(spark, bootstrap, topic, directory, name, **options):
    frame = source(spark.readStream, bootstrap, subscribe=topic, startingOffsets="earliest", **options)
    query = (
        frame.writeStream.queryName(name)
        .format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "data"))
    )
    assert query.awaitTermination(SECONDS), "the query did not end"


def group_offsets(bootstrap, group):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = admin.list_group_offsets(group)[group]
        return {(place.topic, place.partition): each.offset for place, each in found.items()}
    finally:
        admin.close()


def sample(listener, name, **labels):
    return listener.registry.get_sample_value(f"kwire_spark_{name}", labels)


@pytest.mark.short
def test_a_query_s_offsets_are_in_its_shadow_group(spark, bootstrap, listener, topic, tmp_path, unique):
    create_topic(bootstrap, topic, 2)
    sent(bootstrap, topic, [Record(value=b"%d" % each) for each in range(COUNT)], 1)
    name = unique("query")
    run(spark, bootstrap, topic, tmp_path, name)
    expected = {(topic, 0): 0, (topic, 1): COUNT}
    eventually(lambda: group_offsets(bootstrap, f"spark-{name}") == expected, "the offsets of the shadow group")


def test_metrics_of_a_query_follow_its_batches(spark, bootstrap, listener, topic, tmp_path, unique):
    create_topic(bootstrap, topic)
    sent(bootstrap, topic, [Record(value=b"%d" % each) for each in range(COUNT)])
    name = unique("query")
    run(spark, bootstrap, topic, tmp_path, name, maxOffsetsPerTrigger=10)
    eventually(lambda: sample(listener, "query_active", query=name) == 0, "the end of the query")
    assert sample(listener, "input_rows_total", query=name) == COUNT
    assert sample(listener, "batch_id", query=name) == 2
    assert sample(listener, "batch_duration_seconds", query=name) > 0
    assert sample(listener, "lag_offsets", query=name, topic=topic, partition="0") == 0


def test_metrics_of_observe_are_exported(spark, bootstrap, listener, topic, tmp_path, unique):
    create_topic(bootstrap, topic)
    sent(bootstrap, topic, [Record(value=b"%d" % each) for each in range(COUNT)])
    name = unique("query")
    frame = source(spark.readStream, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    counted = frame.observe("records", f.count(f.lit(1)).alias("all"), f.max("topic").alias("text"))
    writer = counted.writeStream.queryName(name).format("noop").option("checkpointLocation", str(tmp_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS), "the query did not end"
    eventually(lambda: sample(listener, "query_active", query=name) == 0, "the end of the query")
    assert sample(listener, "observed", query=name, observation="records", metric="all") == 5
    assert sample(listener, "observed_sum_total", query=name, observation="records", metric="all") == COUNT
    assert sample(listener, "observed", query=name, observation="records", metric="text") is None
