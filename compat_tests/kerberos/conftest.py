"""A key distribution center, and a broker with GSSAPI on listeners with and without TLS."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.harness.brokers import new_broker
from compat_tests.harness.ports import free_ports
from compat_tests.kerberos.clients import SERVICE, Login
from compat_tests.kerberos.kdc import REALM, Kdc
from compat_tests.kerberos.packages import environment
from compat_tests.security.secured import of_apache_kafka
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import KERBEROS_MODULE
from tests.support.certificates import Authority

LISTENERS = "SASL_PLAINTEXT", "SASL_SSL"
HOST = "localhost"
CLIENTS = "alice", "bob", "ADMIN/laptop", "carol/laptop"
"""Principals of clients. The rules give no user name to the last one; alice and admin are super users."""
RULES = "RULE:[2:$1](^ADMIN$)/L,RULE:[1:$1@$0](.*@KWIRE[.]TEST)s/@.*//"
OTHER_SERVICE = "other"


@dataclass(frozen=True)
class Served:
    """Running broker, and the KDC of its clients."""

    name: str
    bootstrap: str
    kdc: Kdc
    login: Login
    ports: tuple[int, ...]
    """Port of each of LISTENERS."""

    def login_of(self, principal: str, listener: str = LISTENERS[0], *, seconds: int = 3600, **changed) -> Login:
        """Return the login of a principal, with a new ticket; `changed` are other fields."""
        port = self.ports[LISTENERS.index(listener)]
        own = {"address": f"{HOST}:{port}", "protocol": listener}
        tickets = changed.pop("tickets", None) or self.kdc.tickets(principal, seconds=seconds)
        return replace(self.login, **own, tickets=tickets, **changed)


@pytest.fixture(scope="session")
def kdc(tmp_path_factory) -> Iterator[Kdc]:
    packages = environment()
    center = Kdc(tmp_path_factory.mktemp("kdc"))
    center.environment |= packages | {"JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={center.configuration}"}
    with center.running(), pytest.MonkeyPatch.context() as patch:
        for name, value in center.environment.items():
            patch.setenv(name, value)
        for principal in (f"{OTHER_SERVICE}/{HOST}", *CLIENTS):
            center.add(principal)
        yield center


@pytest.fixture(scope="session")
def served(request, tmp_path_factory, kdc) -> Iterator[Served]:
    authority = Authority()
    directory = tmp_path_factory.mktemp("certificates")
    broker = new_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"))
    ports = tuple(free_ports(len(LISTENERS)))
    settings = settings_of(broker.bootstrap, ports, kdc, authority.issue().pem_file(directory / "broker.pem"))
    broker.more_settings = of_apache_kafka(settings) if broker.name == "kafka" else settings
    login = Login(
        address="",
        protocol="",
        tickets=Path(),
        authority=authority.pem_file(directory / "ca.pem"),
        environment=kdc.environment,
    )
    try:
        broker.start()
        yield Served(broker.name, broker.bootstrap, kdc, login, ports)
    finally:
        broker.stop()


def settings_of(bootstrap: str, ports: tuple[int, ...], kdc: Kdc, identity: Path) -> dict[str, str]:
    """Return the settings of a broker with these listeners."""
    own = [f"{name}://{HOST}:{port}" for name, port in zip(LISTENERS, ports, strict=True)]
    listeners = ",".join((f"PLAINTEXT://{bootstrap}", *own))
    principal = f"{SERVICE}/{HOST}"
    key_tab = kdc.add(principal)
    options = f'useKeyTab=true storeKey=true keyTab="{key_tab}" principal="{principal}@{REALM}"'
    protocols = ("PLAINTEXT", *LISTENERS)
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join((*(f"{name}:{name}" for name in protocols), "CONTROLLER:PLAINTEXT")),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity),
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "connection.failed.authentication.delay.ms": "0",  # repeated failures of an address are delayed more and more
        "sasl.kerberos.principal.to.local.rules": RULES,
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS;User:alice;User:admin",
    } | {
        f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": f"{KERBEROS_MODULE} required {options};"
        for name in LISTENERS
    }


@pytest.fixture
def new_topic(served, topic) -> str:
    create_topic(served.bootstrap, topic)
    return topic
