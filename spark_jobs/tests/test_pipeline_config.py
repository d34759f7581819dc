"""Configuration of the pipeline: a file, overrides, and one line for everything that is wrong."""

from datetime import timedelta

import pytest

from spark_jobs.pipeline.config import Config, ConfigError, Tables, read_config, seconds

GOOD = """
bootstrap = "a:9092"
input = "events"
checkpoint = "s3a://bucket/checkpoint"
queries = ["raw", "counts"]
max_offsets_per_trigger = 1000

[tables]
path = "s3a://bucket/tables"
format = "iceberg"

[events]
window = "5 minutes"

[kafka]
"security.protocol" = "SASL_SSL"

[librdkafka]
"security.protocol" = "sasl_ssl"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(GOOD)
    return path


def test_a_file_is_read(file):
    config = read_config(file, {})
    assert (config.bootstrap, config.queries) == ("a:9092", ["raw", "counts"])
    assert config.tables == Tables(path="s3a://bucket/tables", format="iceberg")
    assert (config.output, config.dead_letters) == ("events-counts", "events-dead-letters")
    assert config.events.window == "5 minutes"
    assert config.kafka == {"security.protocol": "SASL_SSL"}
    assert config.producer == {"bootstrap.servers": "a:9092", "security.protocol": "sasl_ssl"}


def test_overrides_come_before_the_file(file):
    overrides = {
        "events.window": "1 hour",
        "kafka.ssl.truststore.type": "PEM",
        "queries": "raw",
        "slots": "8",
        "fail_on_data_loss": "false",
        "tables.format": "parquet",
    }
    config = read_config(file, overrides)
    assert (config.events.window, config.queries, config.slots) == ("1 hour", ["raw"], 8)
    assert config.fail_on_data_loss is False
    assert config.tables == Tables(path="s3a://bucket/tables", format="parquet")
    assert config.kafka == {"security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM"}


def test_overrides_alone_are_enough():
    given = {"bootstrap": "a:1", "input": "events", "checkpoint": "/c", "tables.path": "/t"}
    assert read_config(None, given) == Config(
        bootstrap="a:1", input="events", checkpoint="/c", tables=Tables(path="/t")
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tables.format", "csv", "tables.format: 'csv' is unknown, use one of parquet, delta, iceberg"),
        ("queries", "raw,others", "queries: others is unknown, use some of raw, "),
        ("queries", "", "queries:"),
        ("trigger", "soon", "trigger: 'soon' is no interval, write for example '30 seconds'"),
        ("trigger", "0 seconds", "trigger: '0 seconds' is no interval"),
        ("events.window", "1", "events.window: '1' is no interval"),
        ("events.watermark", "1 minute", "events.watermark: 1 minute is less than ahead [+] behind"),
        ("slots", "none", "slots: 'none' is no positive number"),
        ("slots", "-1", "slots: '-1' is no positive number"),
        ("max_offsets_per_trigger", "0", "max_offsets_per_trigger: '0' is no positive number"),
        ("fail_on_data_loss", "perhaps", "fail_on_data_loss: 'perhaps' is neither true nor false"),
        ("windows", "1", "windows: unknown key, known are bootstrap, "),
        ("events.windows", "1", "events.windows: unknown key, known are ahead, "),
        ("tables", "x", "tables: this is a section"),
        ("bootstrap", "", "bootstrap: '' is no text"),
    ],
)
def test_a_wrong_value_is_one_line(file, key, value, message):
    with pytest.raises(ConfigError, match=message) as raised:
        read_config(file, {key: value})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bootstrap = ", "Invalid value"),
        ('input = "x"', "bootstrap: this key is missing"),
        (GOOD.replace('"a:9092"', "5"), "bootstrap: 5 is no text"),
        (GOOD.replace('["raw", "counts"]', "5"), "queries: 5 is no list of texts"),
        (GOOD.replace("1000", "true"), "max_offsets_per_trigger: True is no positive number"),
        (GOOD.replace("[tables]\n", ""), "path: unknown key|tables: this key is missing"),
        (GOOD.replace('path = "s3a://bucket/tables"', ""), "tables.path: this key is missing"),
    ],
)
def test_a_wrong_file_is_one_line(file, text, message):
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        read_config(file, {})
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        read_config(tmp_path / "none.toml", {})


@pytest.mark.parametrize(("text", "value"), [("1 second", 1), ("250 milliseconds", 0.25), ("2 hours", 7200)])
def test_intervals_are_those_of_spark(text, value):
    assert timedelta(seconds=seconds(text, "x")) == timedelta(seconds=value)
