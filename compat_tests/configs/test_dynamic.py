"""Dynamic configurations: precedence, the value after a deletion, immediate effect, and persistence over a restart."""

import pytest

from compat_tests.configs.asking import BROKER, DELETE, SET, TOPIC, alter, describe, entries, tried
from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer, batch_of
from kwire.protocol.error_codes import ErrorCode

INVALID_REQUEST = 42
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5


def seen(peer, kind, name, key):
    found = entries(describe(peer, kind, name, key))[key]
    return found["value"], found["source"]


def change(peer, kind, name, key, value):
    operation = DELETE if value is None else SET
    assert alter(peer, kind, name, (key, operation, value)) == (0, None)


def test_the_most_specific_config_value_applies(peer, topic):
    peer.create_topic(topic)
    key, own = "log.index.interval.bytes", "index.interval.bytes"
    steps = [
        (BROKER, "", key, "8000", ("8000", DYNAMIC_DEFAULT)),
        (BROKER, "1", key, "9000", ("9000", DYNAMIC_BROKER)),
        (TOPIC, topic, own, "7000", ("7000", DYNAMIC_TOPIC)),
        (TOPIC, topic, own, None, ("9000", DYNAMIC_BROKER)),
        (BROKER, "1", key, None, ("8000", DYNAMIC_DEFAULT)),
        (BROKER, "", key, None, ("4096", DEFAULT)),
    ]
    for kind, name, changed, value, expected in steps:
        change(peer, kind, name, changed, value)
        eventually(lambda expected=expected: seen(peer, TOPIC, topic, own) == expected, f"{changed}={value} to count")


def test_message_max_bytes_counts_at_once(peer, topic):
    peer.create_topic(topic)
    steps = [
        ("", "200", ErrorCode.MESSAGE_TOO_LARGE),
        ("1", "100000", ErrorCode.NONE),
        ("1", None, ErrorCode.MESSAGE_TOO_LARGE),
        ("", None, ErrorCode.NONE),
    ]
    assert peer.produce(topic, batch_of(50)).error_code == 0
    for name, value, code in steps:
        change(peer, BROKER, name, "message.max.bytes", value)
        eventually(
            lambda code=code: peer.produce(topic, batch_of(50)).error_code == code,
            f"message.max.bytes={value} to count",
        )


def test_thread_counts_change_at_most_by_a_factor_of_two(peer):
    key = "num.io.threads"
    assert tried(peer, BROKER, "1", key, "17")[0] == INVALID_REQUEST
    change(peer, BROKER, "1", key, "16")
    eventually(lambda: seen(peer, BROKER, "1", key) == ("16", DYNAMIC_BROKER), "the threads to grow")
    assert [tried(peer, BROKER, "1", key, value)[0] for value in ("33", "7", "32", "8")] == [42, 42, 0, 0]
    change(peer, BROKER, "1", key, None)
    eventually(lambda: seen(peer, BROKER, "1", key) == ("8", DEFAULT), "the default to return")


@pytest.mark.restart
def test_dynamic_configs_survive_a_restart(broker, topic):
    with Peer(broker.bootstrap) as peer:
        peer.create_topic(topic)
        change(peer, BROKER, "", "log.retention.ms", "70000000")
        change(peer, BROKER, "1", "log.segment.bytes", "2000000")
    broker.restart()
    with Peer(broker.bootstrap) as peer:
        for name, expected in (
            ("retention.ms", ("70000000", DYNAMIC_DEFAULT)),
            ("segment.bytes", ("2000000", DYNAMIC_BROKER)),
        ):
            eventually(
                lambda name=name, reported=expected: seen(peer, TOPIC, topic, name) == reported,
                f"{name} to be reported",
            )
        change(peer, BROKER, "", "log.retention.ms", None)
        change(peer, BROKER, "1", "log.segment.bytes", None)
        eventually(lambda: seen(peer, TOPIC, topic, "retention.ms") == ("604800000", DEFAULT), "the default to return")
