"""Settings of one listener and of one SASL mechanism of it, as Apache Kafka overlays them."""

from __future__ import annotations

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.config_keys import ConfigError
from kwire.server.settings.listener_values import values_of_listener

TEXTS = {
    "ssl.client.auth": "requested",
    "listener.name.secure.ssl.client.auth": "required",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.secure.plain.sasl.jaas.config": "of plain",
    "listener.name.secure.scram-sha-256.sasl.jaas.config": "of scram",
    "listener.name.secure.not.a.key": "1",
}
VALUES = {**default_settings(), "ssl.client.auth": "requested"}


def test_a_listener_has_its_own_values_before_those_of_all() -> None:
    assert values_of_listener("SECURE", TEXTS, VALUES)["ssl.client.auth"] == "required"
    assert values_of_listener("OTHER", TEXTS, VALUES)["ssl.client.auth"] == "requested"
    assert values_of_listener("SECURE", TEXTS, VALUES)["sasl.enabled.mechanisms"] == ["PLAIN", "SCRAM-SHA-256"]


def test_a_mechanism_has_its_own_values_before_those_of_its_listener() -> None:
    texts = TEXTS | {"listener.name.secure.sasl.jaas.config": "of all"}
    plain = values_of_listener("secure", texts, VALUES, mechanism="PLAIN")
    assert (plain["sasl.jaas.config"], plain["ssl.client.auth"]) == ("of plain", "required")
    assert values_of_listener("SECURE", texts, VALUES, mechanism="SCRAM-SHA-256")["sasl.jaas.config"] == "of scram"
    assert values_of_listener("SECURE", texts, VALUES, mechanism="SCRAM-SHA-512")["sasl.jaas.config"] == "of all"
    assert values_of_listener("OTHER", texts, VALUES, mechanism="PLAIN")["sasl.jaas.config"] is None


def test_an_invalid_value_of_a_listener_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.client\.auth"):
        values_of_listener("SECURE", {"listener.name.secure.ssl.client.auth": "maybe"}, VALUES)
