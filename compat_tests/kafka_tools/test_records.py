"""Console and verifiable producers and consumers, performance tests, and tools for offsets and record deletion."""

import json

import pytest

from compat_tests.kafka_tools.comparing import only_lines_with, without_numbers

PRODUCER, CONSUMER, OFFSETS = "kafka-console-producer", "kafka-console-consumer", "kafka-get-offsets"


@pytest.mark.short
def test_lines_become_records_and_lines_again(both, new_topic):
    name = new_topic()
    reader = ("parse.headers=true", "parse.key=true", "key.separator=:", "null.marker=NULL")
    properties = [each for setting in reader for each in ("--reader-property", setting)]
    both.run(
        PRODUCER,
        "--topic",
        name,
        *properties,
        text="h1:a,h2:b\tk1:v1\nNULL\tk2:NULL\nNULL\tNULL:v3\nNULL\tk4:gr\u00fc\u00df\n",
    )
    shown = ("print.key=true", "print.headers=true", "print.partition=true", "print.offset=true", "print.epoch=true")
    properties = [each for setting in shown for each in ("--formatter-property", setting)]
    read = both.run(CONSUMER, "--topic", name, "--from-beginning", "--max-messages", "4", *properties)
    assert [line.split("\t")[-2:] for line in read.lines] == [
        ["k1", "v1"],
        ["k2", "null"],
        ["null", "v3"],
        ["k4", "gr\u00fc\u00df"],
    ]
    assert "h1:a,h2:b" in read.lines[0]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_lines(both, new_topic, codec):
    name = new_topic()
    text = "".join(f"line {number} of some that compress well\n" for number in range(200))
    both.run(PRODUCER, "--topic", name, "--compression-codec", codec, text=text)
    read = both.run(
        CONSUMER, "--topic", name, "--from-beginning", "--max-messages", "200", "--isolation-level", "read_committed"
    )
    assert read.output == text


def test_one_partition_from_an_offset(both, new_topic):
    name = new_topic()
    both.run(PRODUCER, "--topic", name, "--producer-property", "acks=1", text="a\nb\nc\n")
    one = ("--topic", name, "--partition", "0")
    assert both.run(CONSUMER, *one, "--offset", "1", "--max-messages", "1").lines == ["b"]
    assert both.run(CONSUMER, *one, "--offset", "earliest", "--timeout-ms", "1500").lines == ["a", "b", "c"]
    assert both.run(CONSUMER, *one, "--offset", "latest", "--timeout-ms", "1500").lines == []


def test_the_console_makes_the_topic_it_writes_to(both, topic):
    both.run(PRODUCER, "--topic", topic, text="first\n")
    assert both.run(OFFSETS, "--topic", topic).lines == [f"{topic}:0:1"]


def test_verifiable_clients(both, new_topic, group):
    name = new_topic()
    untimed = lambda text: "".join(line for line in text.splitlines(True) if '"tool_data"' not in line)  # noqa: E731
    produced = both.run("kafka-verifiable-producer", "--topic", name, "--max-messages", "20", change=untimed)
    events = [json.loads(line) for line in produced.lines]
    assert [event["offset"] for event in events if event["name"] == "producer_send_success"] == list(range(20))
    assert events[-1]["acked"] == 20
    reading = ("--topic", name, "--group-id", group, "--reset-policy", "earliest", "--max-messages", "20", "--verbose")
    in_any_order = lambda text: "".join(sorted(text.splitlines(True)))  # noqa: E731 - two threads print the end
    consumed = both.run("kafka-verifiable-consumer", *reading, change=in_any_order)
    events = [json.loads(line) for line in consumed.lines]
    assert [event["value"] for event in events if event["name"] == "record_data"] == [str(each) for each in range(20)]
    committed = [event["offsets"] for event in events if event["name"] == "offsets_committed"]
    assert committed[-1] == [{"topic": name, "partition": 0, "offset": 20}]


@pytest.mark.short
def test_performance_tests(both, new_topic, group):
    name = new_topic()
    load = ("--topic", name, "--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    produced = both.run("kafka-producer-perf-test", *load, change=without_numbers)
    assert produced.lines[-1].startswith("5000 records sent,")
    reading = ("--topic", name, "--num-records", "5000", "--timeout", "20000", "--group", group)
    consumed = both.run("kafka-consumer-perf-test", *reading, change=without_numbers)
    assert consumed.lines[-1].split(", ")[4] == "5000"
    assert both.run(OFFSETS, "--topic", name).lines == [f"{name}:0:5000"]


def test_end_to_end_latency(both, new_topic):
    measuring = ("--topic", new_topic(), "--num-records", "50", "--producer-acks", "all", "--record-size", "20")
    measured = both.run("kafka-e2e-latency", *measuring, change=without_numbers)
    assert measured.lines[-1].startswith("Percentiles: 50th = ")


def test_offsets_by_time(both, new_topic):
    name = new_topic(2)
    both.run(
        PRODUCER,
        "--topic",
        name,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        text="a:1\nb:2\nc:3\n",
    )

    def ask(time):
        lines = both.run(OFFSETS, "--topic-partitions", f"{name}:0,{name}:1", "--time", time).lines
        return sum(int(line.rpartition(":")[2]) for line in lines)

    assert (ask("latest"), ask("earliest"), ask("-4"), ask("0")) == (3, 0, 0, 0)
    # The producer's clock decides which of the three records is the newest.
    newest = both.run(OFFSETS, "--topic", name, "--time", "max-timestamp", change=without_numbers)
    assert newest.lines != []
    assert both.run(OFFSETS, "--topic", name, "--time", "-5").lines == []
    assert "Could not match" in both.run(OFFSETS, "--topic", f"{name}-none", status=1).errors
    listed = both.run(OFFSETS, "--exclude-internal-topics", change=only_lines_with(name))
    assert len([line for line in listed.lines if name in line]) == 2


def test_records_are_deleted(both, new_topic, json_file):
    name = new_topic(2)
    both.run(PRODUCER, "--topic", name, "--producer-property", "partitioner.ignore.keys=true", text="1\n2\n3\n4\n")
    ends = {
        line.split(":")[1]: int(line.split(":")[2]) for line in both.tested.tools.run(OFFSETS, "--topic", name).lines
    }
    partition = max(ends, key=ends.__getitem__)

    def delete(offset, change=str):
        plan = {"version": 1, "partitions": [{"topic": name, "partition": int(partition), "offset": offset}]}
        return both.run("kafka-delete-records", "--offset-json-file", json_file("plan", plan), change=change)

    assert "low_watermark: -1" not in delete(0, without_numbers).output
    assert "OffsetOutOfRange" in delete(99).output
    assert f"low_watermark: {ends[partition]}" in delete(-1, without_numbers).output
    starts = both.tested.tools.run(OFFSETS, "--topic", name, "--time", "earliest").lines
    assert f"{name}:{partition}:{ends[partition]}" in starts
