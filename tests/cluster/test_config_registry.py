"""Configuration registry: each honoured key is read by some code, and every text in it is usable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.cluster.configs.broker import AUTHORIZER_KEYS, BROKER_KEYS, DYNAMIC_ONLY_KEYS, base_name
from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import ConfigError, ConfigKey, ConfigType, Update, Use, parse, render
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.group_configs import BOUNDS, bound_name
from kwire.cluster.configs.topic import TOPIC_KEYS

KWIRE = Path(__file__).parents[2] / "kwire"
TABLES = (BROKER_KEYS, AUTHORIZER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS)
ALL = [key for table in TABLES for key in table.values()]


def source(*leaving_out: str) -> str:
    """Return the source code of kwire without the tables and the modules that only list names."""
    paths = [path for path in KWIRE.rglob("*.py") if path.relative_to(KWIRE).as_posix() not in leaving_out]
    return "\n".join(path.read_text() for path in paths if "configs" not in path.relative_to(KWIRE).parts)


def test_honoured_broker_keys_are_read() -> None:
    text = source(
        "server/settings/setting_rules.py", "server/settings/dynamic_checks.py", "server/settings/config_entries.py"
    )
    derived = [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]
    gives = {name for key in derived if key.use is Use.HONOURED for name in key.synonyms}
    bounds = {name: sides for name, sides in BOUNDS.items() if GROUP_KEYS[name].use is Use.HONOURED}
    gives |= {bound_name(name, side) for name, sides in bounds.items() for side in sides}
    honoured = [key.name for key in BROKER_KEYS.values() if key.use is Use.HONOURED]
    assert len(honoured) > 70
    assert not [name for name in honoured if f'"{name}"' not in text and name not in gives]


def test_ignored_broker_keys_give_no_topic_key_a_default() -> None:
    derived = [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]
    gives = {name for key in derived if key.use is Use.HONOURED for name in key.synonyms}
    bounds = {name: sides for name, sides in BOUNDS.items() if GROUP_KEYS[name].use is Use.HONOURED}
    gives |= {bound_name(name, side) for name, sides in bounds.items() for side in sides}
    assert not [name for name in gives if BROKER_KEYS[name].use is not Use.HONOURED]


def test_honoured_topic_keys_are_read() -> None:
    text = source("log/config.py", "cluster/configs/topic_configs.py")
    fields = {
        name: re.escape(name.replace(".", "_"))
        for name, key in TOPIC_KEYS.items()
        if key.use is Use.HONOURED and not key.internal
    }
    derived = {"cleanup.policy", "message.timestamp.type"}  # read as is_deleted, is_compacted, is_log_append_time
    derived |= {f"{side}.replication.throttled.replicas" for side in ("leader", "follower")}  # by replication quotas
    derived |= {"unclean.leader.election.enable"}  # read by the controller
    assert not [
        name for name, field in fields.items() if name not in derived and not re.search(rf"config\.{field}\b", text)
    ]


@pytest.mark.parametrize("key", ALL, ids=lambda key: key.name)
def test_each_key_has_a_usable_default_and_a_meaning(key: ConfigKey) -> None:
    assert key.doc.endswith(".")
    assert len(key.doc) > 10
    for text in (key.default, key.kafka_default):
        assert text is None or render(parse(key, text)) == text
    assert key.use is not Use.REJECTED or key.name in BROKER_KEYS or key.name == "remote.storage.enable"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, " +7 ", 7),
        (ConfigType.INT, "2147483648", None),
        (ConfigType.INT, "1_0", None),
        (ConfigType.INT, "²", None),
        (ConfigType.INT, "9" * 5000, None),
        (ConfigType.SHORT, "-32768", -32768),
        (ConfigType.SHORT, "32768", None),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "1.2.3", None),
        (ConfigType.DOUBLE, "nan", None),
        (ConfigType.DOUBLE, "2f", 2.0),
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.BOOLEAN, "yes", None),
        (ConfigType.LIST, " a , b ,a", ["a", "b"]),
        (ConfigType.LIST, "", []),
        (ConfigType.CLASS, "a.B", None),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_texts_are_read_as_java_reads_them(kind: ConfigType, text: str, value: object) -> None:
    key = ConfigKey(name="some.key", type=kind, default=None, doc="")
    if value is None:
        with pytest.raises(ConfigError, match=r"^Invalid value .* for configuration some\.key"):
            parse(key, text)
    else:
        assert parse(key, text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e10, "1.0E10"),
        (0.5, "0.5"),
        (3.0, "3.0"),
        (1.5e-5, "1.5E-5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_shown_as_java_shows_them(value: float, text: str) -> None:
    assert render(value) == text


def test_a_listener_prefix_is_removed_from_a_config_key() -> None:
    assert base_name("listener.name.internal.ssl.keystore.type") == "ssl.keystore.type"
    assert base_name("listener.name.internal.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert base_name("num.partitions") == "num.partitions"


def test_dynamic_keys_are_per_broker_or_cluster_wide() -> None:
    assert BROKER_KEYS["listeners"].update is Update.PER_BROKER
    assert BROKER_KEYS["log.retention.ms"].update is Update.CLUSTER_WIDE
    assert not BROKER_KEYS["log.retention.hours"].dynamic
