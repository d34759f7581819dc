"""Valid configuration values: the bounds of each check, and Kafka's messages for values beyond them."""

from __future__ import annotations

import pytest

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.checks import GZIP_LEVEL, NOT_EMPTY
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.topic import TOPIC_KEYS


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "-131073", "Value must be at least -131072"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "1.1", "Value must be no more than 1"),
        ("leader.replication.throttled.replicas", "0:1,2", "must be the literal '\\*' or a list of replicas"),
    ],
)
def test_values_outside_the_bounds_are_rejected(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(TOPIC_KEYS[key], text)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("compression.lz4.level", "17", 17),
        ("compression.zstd.level", "-131072", -131072),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("leader.replication.throttled.replicas", "*", ["*"]),
        ("leader.replication.throttled.replicas", "0:1,2:30", ["0:1", "2:30"]),
    ],
)
def test_values_within_the_bounds_are_accepted(key: str, text: str, value: object) -> None:
    assert parse(TOPIC_KEYS[key], text) == value


def test_texts_that_must_not_be_empty_are_rejected() -> None:
    keys = [key for key in BROKER_KEYS.values() if key.check is NOT_EMPTY]
    for key in keys:
        with pytest.raises(ConfigError, match="String must be non-empty"):
            parse(key, "")
    assert keys
    assert [key for key in TOPIC_KEYS.values() if key.check is GZIP_LEVEL]


@pytest.mark.parametrize(
    ("duration", "is_valid"),
    [
        ("P1DT2H3M4.5S", True),
        ("PT9223372036854775807S", True),
        ("PT9223372036854775808S", False),
        (f"P{'9' * 400}D", False),
        ("P", False),
    ],
)
def test_a_duration_fits_into_64_bits(duration: str, is_valid: bool) -> None:
    key, text = GROUP_KEYS["share.auto.offset.reset"], f"by_duration:{duration}"
    if is_valid:
        assert parse(key, text) == text
    else:
        with pytest.raises(ConfigError, match="Invalid value"):
            parse(key, text)
