"""Security of a cluster of processes: SASL over TLS between its nodes, and certificates that are replaced.

Controllers (port 9093) use PLAIN, brokers (9094) SCRAM-SHA-512, both with client certificates. The clients of a run are
super users of PLAINTEXT (9092). The user of tests/cluster_processes/access.py logs in with PLAIN at ACCESS (9095).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

from cryptography import x509

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.cluster_processes.brokers import CLIENT_PORT, BrokerNode
from tests.cluster_processes.nodes import PORT
from tests.support.access_rights import USER
from tests.support.certificates import Authority
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

INTERNAL_PORT, ACCESS_PORT = 9094, 9095
MECHANISM = "SCRAM-SHA-512"
NODE, NODE_PASSWORD = "node", "node-secret"
USER_PASSWORD = "alice-secret"
USERS = ("--add-scram", f"{MECHANISM}=[name={NODE},password={NODE_PASSWORD}]")
"""Arguments of the command that formats a directory."""
SECURED = ("internal", "controller")
"""Listeners with TLS."""
SECONDS = 30.0


class Security:
    """Authority of a cluster, and the key store of each node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = Authority()
        self._trusted = self._authority.pem_file(directory / "ca.pem")
        own = self._authority.issue("test").pem_file(directory / "test.pem")
        self._client = self._authority.client()
        self._client.load_cert_chain(own)
        self._client.check_hostname = False  # a node's certificate names its address
        self.replacements = 0

    def settings(self, node_id: int, host: str, *, is_controller: bool) -> Mapping[str, str]:
        """Return the settings of a node, whose key store is made."""
        ports = {"PLAINTEXT": CLIENT_PORT, "INTERNAL": INTERNAL_PORT, "ACCESS": ACCESS_PORT}
        ports |= {"CONTROLLER": PORT} if is_controller else {}
        login = f'username="{NODE}" password="{NODE_PASSWORD}"'
        self._issue(node_id, host)
        return {
            "listeners": ",".join(f"{name}://{host}:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,ACCESS:SASL_PLAINTEXT,CONTROLLER:SASL_SSL"
            ),
            "inter.broker.listener.name": "INTERNAL",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.internal.sasl.enabled.mechanisms": MECHANISM,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.access.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.internal.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required {login};",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required {login} user_{NODE}="{NODE_PASSWORD}";'
            ),
            "listener.name.access.plain.sasl.jaas.config": (f'{PLAIN_MODULE} required user_{USER}="{USER_PASSWORD}";'),
            "authorizer.class.name": STANDARD,
            "super.users": f"User:{NODE};User:ANONYMOUS",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._trusted),
            "ssl.keystore.type": "PEM",
            **{f"listener.name.{name}.ssl.client.auth": "required" for name in SECURED},
            **{_location(name): str(self._key_store(node_id)) for name in SECURED},
        }

    def replace_certificates(self, nodes: Iterable[BrokerNode]) -> None:
        """Give each node another certificate; return when new connections get it. Raises AssertionError."""
        for node in nodes:
            serial = self._issue(node.node_id, node.host)
            _read_again(node, str(self._key_store(node.node_id)))
            ports = (INTERNAL_PORT, PORT) if node.is_controller else (INTERNAL_PORT,)
            for port in ports:
                eventually(lambda: self._serial(node, port) == serial, f"{node.node_id} has its certificate", SECONDS)  # noqa: B023
        self.replacements += 1

    def _issue(self, node_id: int, host: str) -> int:
        """Write a new key store in place of the present one; return the serial number of its certificate."""
        identity = self._authority.issue(f"node-{node_id}", hosts=[host])
        identity.pem_file(self._directory / f"next-{node_id}.pem").replace(self._key_store(node_id))
        return identity.certificate.serial_number

    def _key_store(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.pem"

    def _serial(self, node: BrokerNode, port: int) -> int:
        """Return the serial number of the certificate that new connections get; 0 if there are none."""
        try:
            with node.inside(), RawClient(f"{node.host}:{port}", tls=self._client) as client:
                assert isinstance(client.socket, ssl.SSLSocket)
                certificate = client.socket.getpeercert(binary_form=True)
        except OSError:
            return 0
        assert certificate is not None
        return x509.load_der_x509_certificate(certificate).serial_number


def _location(listener: str) -> str:
    return f"listener.name.{listener}.ssl.keystore.location"


def _read_again(node: BrokerNode, path: str) -> None:
    """Set the locations of a node's key stores again, which lets it read the files."""
    configs = [
        IncrementalAlterConfigsAlterableConfig(name=_location(name), config_operation=0, value=path) for name in SECURED
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name=str(node.node_id), configs=configs
    )

    def is_altered() -> bool:
        try:
            (answer,) = node.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, SECONDS).responses
        except OSError:
            return False
        return bool(answer.error_code == ErrorCode.NONE)

    eventually(is_altered, f"{node.node_id} accepts its new key store", SECONDS)
