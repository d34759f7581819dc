"""Configuration values as text: their meaning, and that no invalid text takes long to reject."""

from __future__ import annotations

import time

import pytest

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigError, parse
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.topic import TOPIC_KEYS

RATIO = TOPIC_KEYS["min.cleanable.dirty.ratio"]
LENGTH = 30_000
"""Approximate maximum length of a string in the protocol."""


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("1.", 1.0), (".5", 0.5), ("0.25", 0.25), (" 5e-1 ", 0.5), ("+.5E+0d", 0.5), ("1f", 1.0)],
)
def test_doubles_are_written_as_in_java(text: str, value: float) -> None:
    assert parse(RATIO, text) == value


@pytest.mark.parametrize("text", ["", ".", "1..", "1.1.1", "e5", "1e", "0x1", "1_0", "nan", "1ff", "1 1", "d"])
def test_malformed_doubles_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(RATIO, text)


@pytest.mark.parametrize(
    "text", ["1" * LENGTH + "!", "1" * LENGTH + "e" + "1" * LENGTH + "!", "a:" * (LENGTH // 2) + "!", "," * LENGTH]
)
def test_a_long_text_is_validated_quickly(text: str) -> None:
    for key in {(key.type, key.check): key for key in (RATIO, *BROKER_KEYS.values(), *GROUP_KEYS.values())}.values():
        began = time.monotonic()
        try:
            parse(key, text)
        except ConfigError as error:
            assert key.name in str(error)
        assert time.monotonic() - began < 1, key.name
