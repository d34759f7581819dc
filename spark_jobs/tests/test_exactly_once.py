"""Exactly-once sink: crashes before Spark's commit, slots that fail, and checkpoints that do not fit."""

import json

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from compat_tests.harness.payloads import Record
from kwire.spark import ExactlyOnceSink
from spark_jobs.tests.support import SECONDS, create_topic, read_committed, remove_last_commit, sent, source

COUNT = 40


class Flow:
    """Stream from one topic through the sink to others; each run continues from the checkpoint."""

    def __init__(self, spark, bootstrap, directory, name):
        self.spark, self.bootstrap, self.name = spark, bootstrap, name
        self.checkpoint = directory / "checkpoint"
        self.input, self.output = f"{name}-in", f"{name}-out"
        create_topic(bootstrap, self.input, 2)
        create_topic(bootstrap, self.output, 3)

    def send(self, first, count=COUNT):
        records = [
            Record(key=b"key-%d" % (each % 7), value=b"value-%d" % each, timestamp_ms=1_700_000_000_000)
            for each in range(first, first + count)
        ]
        sent(self.bootstrap, self.input, records, first % 2)

    def sink(self, **options):
        chosen = {"name": self.name, "topic": self.output} | options
        return ExactlyOnceSink({"bootstrap.servers": self.bootstrap}, **chosen)

    def run(self, sink, change=lambda frame: frame.select("key", "value")):
        frame = source(self.spark.readStream, self.bootstrap, subscribe=self.input, startingOffsets="earliest")
        writer = change(frame).writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS), "the query did not end"

    def crash_before_commit(self):
        remove_last_commit(self.checkpoint)

    def committed(self, topic=None):
        return read_committed(self.bootstrap, topic or self.output)


def alter_topic(bootstrap, topic, **configs):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        changes = {name.replace("_", "."): str(value) for name, value in configs.items()}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=changes)])
    finally:
        admin.close()


def values(records):
    return sorted(int(each.value.removeprefix(b"value-")) for each in records)


@pytest.fixture
def flow(spark, bootstrap, tmp_path, unique):
    return Flow(spark, bootstrap, tmp_path, unique("flow"))


@pytest.mark.matrix
def test_each_record_is_written_once_over_several_runs(flow):
    for first in (0, COUNT):
        flow.send(first)
        sink = flow.sink()
        flow.run(sink)
        assert sink.last == (COUNT, 0)
    assert values(flow.committed()) == list(range(2 * COUNT))


@pytest.mark.matrix
@pytest.mark.short
def test_a_batch_that_is_repeated_after_a_crash_is_written_once(flow):
    flow.send(0)
    flow.run(flow.sink())
    flow.crash_before_commit()
    sink = flow.sink()
    flow.run(sink)
    assert sink.last == (0, 4)
    assert values(flow.committed()) == list(range(COUNT))
    flow.send(COUNT)
    flow.run(flow.sink())
    assert values(flow.committed()) == list(range(2 * COUNT))


def test_slots_that_had_committed_do_not_write_again_after_one_has_failed(flow, bootstrap):
    later = f"{flow.name}-later"

    def by_key(frame):
        topic = f.when(f.col("key") == b"key-3", f.lit(later)).otherwise(f.lit(flow.output))
        return frame.select("key", "value", topic.alias("topic"))

    flow.send(0)
    create_topic(bootstrap, later, 1, max_message_bytes=10)
    with pytest.raises(StreamingQueryException, match="MSG_SIZE_TOO_LARGE"):
        flow.run(flow.sink(topic=None), by_key)
    before = len(flow.committed())
    alter_topic(bootstrap, later, max_message_bytes=1_000_000)
    sink = flow.sink(topic=None)
    flow.run(sink, by_key)
    assert sink.last.repeated_slots > 0 and 0 < before < COUNT
    assert sink.last.records == COUNT - before
    assert values(flow.committed() + flow.committed(later)) == list(range(COUNT))


def test_records_of_one_key_keep_the_order_that_is_asked_for(flow):
    flow.send(0)
    flow.run(
        flow.sink(order_by=["offset"]), lambda frame: frame.where("partition = 0").select("key", "value", "offset")
    )
    by_key = {}
    for each in flow.committed():
        by_key.setdefault(each.key, []).append(int(each.value.removeprefix(b"value-")))
    assert len(by_key) == 7
    assert all(found == sorted(found) for found in by_key.values())


def test_keys_headers_partitions_and_strings_arrive(flow):
    flow.send(0, 1)
    header = f.struct(f.lit("trace").alias("key"), f.lit(b"\x01").alias("value"))
    flow.run(
        flow.sink(),
        lambda frame: frame.select(
            f.lit("text").alias("key"),
            f.lit("word").alias("value"),
            f.lit(2).alias("partition"),
            f.array(header).alias("headers"),
        ),
    )
    (record,) = flow.committed()
    assert (record.partition, record.key, record.value, record.headers) == (2, b"text", b"word", [("trace", b"\x01")])


def test_a_tombstone_is_written_as_one(flow):
    flow.send(0, 1)
    flow.run(flow.sink(), lambda frame: frame.select("key", f.lit(None).cast("binary").alias("value")))
    assert [(each.key, each.value) for each in flow.committed()] == [(b"key-0", None)]


def test_another_checkpoint_is_rejected_and_writes_nothing(flow, tmp_path):
    flow.send(0)
    flow.run(flow.sink())
    flow.checkpoint = tmp_path / "other"
    with pytest.raises(StreamingQueryException, match="use the former checkpoint, or another name for the sink"):
        flow.run(flow.sink())
    assert len(flow.committed()) == COUNT


def test_slots_may_change_between_batches_and_not_within_one(flow):
    flow.send(0)
    flow.run(flow.sink(slots=2))
    flow.crash_before_commit()
    with pytest.raises(StreamingQueryException, match="batch 0 was begun with 2 slots"):
        flow.run(flow.sink(slots=5))
    flow.run(flow.sink(slots=2))
    flow.send(COUNT)
    flow.run(flow.sink(slots=5))
    assert values(flow.committed()) == list(range(2 * COUNT))


def test_the_progress_is_in_a_compacted_topic_with_a_partition_for_each_slot(flow, bootstrap):
    flow.send(0)
    flow.run(flow.sink(slots=2))
    found = read_committed(bootstrap, f"{flow.name}-progress")
    assert {each.partition for each in found} == {0, 1}
    assert {json.loads(each.value)["batch"] for each in found} == {0}


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [({}, ["key"], "the batch has no column value"), ({"topic": None}, ["value"], "the sink has no topic")],
)
def test_a_batch_without_what_a_record_needs_is_rejected(flow, options, columns, message):
    flow.send(0)
    with pytest.raises(StreamingQueryException, match=message):
        flow.run(flow.sink(**options), lambda frame: frame.select(*columns))


@pytest.mark.parametrize(("options", "message"), [({"name": ""}, "^name: "), ({"name": "x", "slots": 0}, "^slots: 0 ")])
def test_options_that_cannot_work_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        ExactlyOnceSink({}, **options)
