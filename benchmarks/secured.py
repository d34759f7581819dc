"""A broker with listeners for TLS and SCRAM beside its own, and with an authorizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.brokers import Run
from compat_tests.harness.ports import HOST, free_ports
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import SCRAM_MODULE
from tests.support.certificates import Authority

MECHANISM = "SCRAM-SHA-256"
USER, PASSWORD = "alice", "alice-secret"
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")


@dataclass(frozen=True)
class Secured:
    """Addresses and files of a broker that has started."""

    run: Run
    ports: Mapping[str, int]
    """Listener name to port."""
    authority: Path

    @property
    def tls_properties(self) -> tuple[str, ...]:
        """Settings of Apache Kafka's tools for the listener with TLS."""
        return ("security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority}")

    def bootstrap(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def add_user(self) -> None:
        """Add the user with a SCRAM credential of 4,096 iterations, Kafka's default."""
        client = KafkaAdminClient(bootstrap_servers=self.run.broker.bootstrap)
        user = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_256, PASSWORD, iterations=4096)
        client.alter_user_scram_credentials([user])
        client.close()


def secured(name: str, **more_settings: str) -> Secured:
    """Return a broker that has not started; its `run` starts it."""
    run = Run(name)
    files = run.directory / "certificates"
    files.mkdir()
    authority = Authority()
    ports = dict(zip(LISTENERS, (run.broker.port, *free_ports(len(LISTENERS) - 1)), strict=True))
    made = Secured(run, ports, authority.pem_file(files / "ca.pem"))
    listeners = ",".join(f"{listener}://{made.bootstrap(listener)}" for listener in LISTENERS)
    run.broker.more_settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in LISTENERS),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue().pem_file(files / "broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": STANDARD,
        "allow.everyone.if.no.acl.found": "true",
        **(_controller(listeners) if name == "kafka" else {}),
        **more_settings,
    }
    return made


def _controller(listeners: str) -> Mapping[str, str]:
    """Return the settings of the controller's listener, which only Apache Kafka needs."""
    controller = f"{HOST}:{free_ports(1)[0]}"
    return {
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "controller.quorum.bootstrap.servers": controller,
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in LISTENERS) + ",CONTROLLER:PLAINTEXT",
    }
