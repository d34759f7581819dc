"""A broker with a listener of each security protocol, and its users."""

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from compat_tests.confluent_kafka_client.client import admin, create_topic
from compat_tests.harness.brokers import new_broker
from compat_tests.harness.waiting import eventually
from compat_tests.security.oauthbearer import KEYS, TOKEN, running_provider
from compat_tests.security.secured import PLAINTEXT, USERS, Files, Secured, of_apache_kafka, settings_of


@pytest.fixture(scope="session")
def provider():
    with running_provider(USERS) as running, pytest.MonkeyPatch.context() as patch:
        # Java programs read tokens and keys only from addresses that this property names.
        allowed = ",".join(f"{running.url}{path}" for path in (TOKEN, KEYS))
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        yield running


@pytest.fixture(scope="session")
def secured(request, tmp_path_factory, provider):
    files = Files(tmp_path_factory.mktemp("certificates"))
    broker = new_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"))
    settings, addresses = settings_of(files, broker.port, provider)
    broker.more_settings = of_apache_kafka(settings) if broker.name == "kafka" else settings
    try:
        broker.start()
        add_scram_users(broker.bootstrap)
        yield Secured(broker.name, addresses, files, provider)
    finally:
        broker.stop()


def add_scram_users(bootstrap):
    """Add the users of both mechanisms, and wait until the broker describes them."""
    client = admin(bootstrap)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        users = [UserScramCredentialUpsertion(user, info, secret.encode()) for user, secret in USERS.items()]
        for future in client.alter_user_scram_credentials(users).values():
            future.result(timeout=20)

    def is_described():
        described = client.describe_user_scram_credentials(list(USERS))
        return all(len(future.result(timeout=20).scram_credential_infos) == 2 for future in described.values())

    eventually(is_described, "both credentials of each user")


@pytest.fixture
def new_topic(secured, topic):
    create_topic(secured.addresses[PLAINTEXT], topic)
    return topic
