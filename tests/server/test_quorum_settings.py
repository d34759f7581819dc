"""Settings of roles, listeners and quorum: valid combinations, as in Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from kwire.server.settings.config import BrokerConfig, ListenerAddress, SettingError, make_config
from kwire.server.settings.listeners import read_listeners
from kwire.server.settings.quorum import check_quorum, read_quorum
from kwire.server.settings.setting_rules import RuleBrokenError

BOTH = "PLAINTEXT://h:1,CONTROLLER://h:2"
CLIENTS = "PLAINTEXT://h:1"
CONTROLLERS = "CONTROLLER://h:2"
SERVERS = "h:2"


def configured(text: str) -> BrokerConfig:
    """Return a configuration from key=value pairs, separated by spaces; roles, servers and voters have short names."""
    short = {
        "roles": "process.roles",
        "names": "controller.listener.names",
        "servers": "controller.quorum.bootstrap.servers",
        "voters": "controller.quorum.voters",
        "advertised": "advertised.listeners",
        "map": "listener.security.protocol.map",
        "inter": "inter.broker.listener.name",
    }
    pairs = (item.split("=", 1) for item in text.split())
    return make_config({short.get(name, name): value for name, value in pairs})


def address(name: str, host: str, port: int) -> ListenerAddress:
    return ListenerAddress(name=name, host=host, port=port)


GOOD = [
    "",
    "roles=broker,controller",
    f"roles=broker,controller listeners={BOTH}",
    "listeners=OTHER://h:1 map=OTHER:PLAINTEXT",
    f"roles=broker,controller listeners={BOTH} servers={SERVERS}",
    f"roles=broker,controller listeners={BOTH} voters=1@h:2",
    f"roles=broker,controller listeners={BOTH} voters=3@c:2,1@a:2,2@b:2",
    f"roles=broker,controller listeners={BOTH} voters=1@[::1]:3 servers={SERVERS}",
    f"roles=broker,controller listeners={BOTH} voters=1@0.0.0.0:0",
    f"roles=broker,controller listeners={CLIENTS},CONTROLLER://0.0.0.0:2 servers={SERVERS}",
    f"listeners=OTHER://h:1,{CONTROLLERS} servers={SERVERS} map=OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT inter=other",
    f"roles=broker listeners={CLIENTS} servers={SERVERS}",
    f"roles=broker listeners={CLIENTS} voters=2@h:2",
    f"roles=broker listeners={CLIENTS} voters=2@h:2 names=CONTROLLER,SECOND",
    f"roles=broker listeners={CLIENTS} voters=2@h:2 advertised=PLAINTEXT://h:1,CONTROLLER://h:9",
    f"roles=controller listeners={CONTROLLERS} servers={SERVERS}",
    f"roles=controller listeners={CONTROLLERS} voters=1@h:2,2@h:3",
    f"roles=controller,controller listeners={CONTROLLERS} voters=1@h:2",
    f"roles=controller listeners={CONTROLLERS} voters=1@h:2 advertised=CONTROLLER://x:4",
    f"roles=controller listeners={CONTROLLERS} voters=1@h:2 advertised=PLAINTEXT://x:4",
    f"roles=controller listeners={CONTROLLERS} voters=1@h:2 inter=OTHER map=CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT",
    "roles=controller names=A,B listeners=B://h:2,A://h:3 voters=1@h:3",
    "roles=controller listeners=controller://h:2 voters=1@h:3",
    f"listeners={BOTH} servers={SERVERS} map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    f"roles=broker listeners={CLIENTS} voters=2@h:2 map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
]


@pytest.mark.parametrize("text", GOOD)
def test_valid_combinations_of_quorum_settings_are_accepted(text: str) -> None:
    config = configured(text)
    assert config.is_broker or config.is_controller
    assert bool(config.listeners) == bool(config.advertised_listeners) == config.is_broker
    assert config.is_default_quorum == ("voters=" not in text and "servers=" not in text)


NO_QUORUM = "either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers"
NO_CONTROLLER_LISTENER = "controller.listener.names must contain at least one value appearing in the 'listeners'"
TOO_MANY_NAMES = "controller.listener.names must only contain values appearing in the 'listeners'"
NOT_A_VOTER = "the node id 1 must be included in the set of voters controller.quorum.voters="
NO_CLIENT_LISTENER = "names no listener for clients"
NOT_ADVERTISED = "is not among advertised.listeners"

BAD = [
    (f"roles=broker listeners={CLIENTS}", NO_QUORUM),
    (f"roles=controller listeners={CONTROLLERS}", NO_QUORUM),
    (f"roles=broker,controller listeners={BOTH} voters=2@h:2,3@h:3", f"{NOT_A_VOTER}2,3"),
    (f"roles=controller listeners={CONTROLLERS} voters=2@h:3", f"{NOT_A_VOTER}2"),
    (f"roles=broker,controller listeners={CLIENTS} servers={SERVERS}", NO_CONTROLLER_LISTENER),
    (f"listeners={CLIENTS} voters=1@h:2", NO_CONTROLLER_LISTENER),
    (f"roles=broker,controller listeners={CONTROLLERS} servers={SERVERS}", NO_CLIENT_LISTENER),
    (f"listeners={CONTROLLERS}", NO_CLIENT_LISTENER),
    (f"roles=broker,controller listeners={BOTH} servers={SERVERS} names=CONTROLLER,SECOND", TOO_MANY_NAMES),
    ("roles=controller names=A,B listeners=A://h:3 voters=1@h:3", TOO_MANY_NAMES),
    (f"roles=broker,controller listeners={BOTH} servers={SERVERS} names=", "must not be empty"),
    (
        f"roles=broker,controller listeners=PLAINTEXT://0.0.0.0:1,{CONTROLLERS} servers={SERVERS}",
        "the address of no machine",
    ),
    (
        f"listeners={BOTH} servers={SERVERS} advertised=PLAINTEXT://a:1,CONTROLLER://0.0.0.0:7",
        "CONTROLLER would be advertised as 0.0.0.0",
    ),
    (f"listeners={BOTH} servers={SERVERS} advertised=CONTROLLER://h:7", "at least one broker advertised listener"),
    (f"listeners={BOTH} servers={SERVERS} inter=CONTROLLER", NOT_ADVERTISED),
    ("inter=", "inter.broker.listener.name: The provided listener name is null or empty"),
    (
        f"listeners=OTHER://h:1,{CONTROLLERS} servers={SERVERS} map=OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"PLAINTEXT {NOT_ADVERTISED}; name one that is, of OTHER",
    ),
    (
        f"listeners={BOTH} servers={SERVERS} advertised=PLAINTEXT://h:1,OTHER://h:3",
        "OTHER is not among listeners",
    ),
    (f"listeners={BOTH} servers={SERVERS} map=PLAINTEXT:PLAINTEXT", "has no entry for listener CONTROLLER"),
    (f"listeners={BOTH} voters=1@h:3 security.inter.broker.protocol=PLAINTEXT inter=PLAINTEXT", "only one of it"),
    (f"roles=broker listeners={CLIENTS} voters=1@h:2", "the node id 1 must not be included"),
    (f"roles=broker listeners={BOTH} voters=2@h:2", "controller.listener.names must not contain a value appearing"),
    (
        f"roles=broker listeners={CLIENTS} voters=2@h:2 map=PLAINTEXT:PLAINTEXT",
        "Controller listener with name CONTROLLER",
    ),
    (f"roles=controller listeners={BOTH} voters=1@h:3", "must only contain KRaft controller listeners"),
    ("roles=controller voters=1@h:3", "must only contain KRaft controller listeners"),
    (f"roles=controller listeners={CONTROLLERS} voters=1@h:3 inter=CONTROLLER", "must not contain an explicitly set"),
    (f"roles=controller listeners={CONTROLLERS} voters=1@h:3 inter=OTHER", "has no entry for OTHER"),
    (f"roles=controller listeners={CONTROLLERS} voters=1@h", "controller.quorum.voters"),
    (f"roles=controller listeners={CONTROLLERS} voters=x@h:3", "controller.quorum.voters"),
    (f"roles=controller listeners={CONTROLLERS} voters=1@h:99999", "controller.quorum.voters: port out of range:99999"),
    (f"roles=controller listeners={CONTROLLERS} servers=h", "controller.quorum.bootstrap.servers"),
    (f"roles=controller listeners={CONTROLLERS} servers=h:2,", "controller.quorum.bootstrap.servers"),
    (f"roles=controller listeners={CONTROLLERS} servers=h:99999", "bootstrap.servers: port out of range:99999"),
    (f"roles= listeners={CONTROLLERS} servers={SERVERS}", "process.roles"),
    (f"roles=observer listeners={CONTROLLERS} servers={SERVERS}", "process.roles"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_invalid_combinations_of_quorum_settings_are_rejected_in_one_line(text: str, words: str) -> None:
    with pytest.raises(SettingError) as rejected:
        configured(text)
    assert words in str(rejected.value)
    assert "\n" not in str(rejected.value)


def test_auto_join_is_rejected_for_a_broker_only_node() -> None:
    """Another rule rejects the setting before this one, as long as kwire does not support it."""
    given = {"process.roles": "broker", "controller.quorum.voters": "2@h:2", "listeners": CLIENTS}
    typed = dict(make_config(given).parsed) | {"controller.quorum.auto.join.enable": True}
    with pytest.raises(RuleBrokenError, match="is only supported when"):
        check_quorum(read_quorum(typed), read_listeners(given, typed), typed)


def test_voters_and_bootstrap_servers_are_parsed() -> None:
    config = configured(f"listeners={BOTH} voters=3@c:30,1@[::1]:10 servers=x:1,[::2]:2")
    assert config.quorum_voters == ((1, "::1", 10), (3, "c", 30))
    assert config.quorum_bootstrap_servers == (("x", 1), ("::2", 2))


def test_the_last_of_two_voters_of_one_id_counts() -> None:
    assert configured(f"listeners={BOTH} voters=1@a:1,1@b:2").quorum_voters == ((1, "b", 2),)


def test_listeners_are_clients_or_controllers() -> None:
    config = configured(
        "listeners=SECOND://:3,PLAINTEXT://h:1,FIRST://0.0.0.0:2 names=first,SECOND servers=h:2 "
        "map=PLAINTEXT:PLAINTEXT,FIRST:PLAINTEXT,SECOND:PLAINTEXT"
    )
    assert config.listeners == config.advertised_listeners == (address("PLAINTEXT", "h", 1),)
    assert config.controller_listeners == (address("SECOND", "", 3), address("FIRST", "0.0.0.0", 2))
    assert config.advertised_controller_listeners == (address("FIRST", "", 2), address("SECOND", "", 3))
    assert config.controller_listener_names == ("FIRST", "SECOND")


def test_advertised_listeners_of_controllers_are_used() -> None:
    config = configured(f"listeners={BOTH} servers={SERVERS} advertised=PLAINTEXT://a:1,CONTROLLER://b:7")
    assert config.advertised_listeners == (address("PLAINTEXT", "a", 1),)
    assert config.advertised_controller_listeners == (address("CONTROLLER", "b", 7),)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "PLAINTEXT"),
        ("listeners=OTHER://h:1,MORE://h:2 map=OTHER:PLAINTEXT,MORE:PLAINTEXT", "OTHER"),
        ("listeners=OTHER://h:1,MORE://h:2 map=OTHER:PLAINTEXT,MORE:PLAINTEXT inter=more", "MORE"),
        ("listeners=OTHER://h:1,PLAINTEXT://h:2 map=OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "PLAINTEXT"),
    ],
)
def test_brokers_reach_each_other_by_one_listener(text: str, name: str) -> None:
    assert configured(text).inter_broker_listener_name == name
