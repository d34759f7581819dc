"""Clusters of both kinds with SASL over TLS: brokers log in at brokers by SCRAM, and all nodes at controllers by PLAIN.

A controller has no users of SCRAM before it has read the metadata log, so that PLAIN is what both kinds can start with.
"""

import socket
from dataclasses import replace

from compat_tests.cluster.clusters import Cluster
from compat_tests.harness.ports import HOST
from compat_tests.harness.process import REPLICATED
from compat_tests.security.clients import librdkafka_settings
from compat_tests.security.secured import SASL_SSL, Login
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.support.certificates import Authority

MECHANISM = "SCRAM-SHA-512"
USERS = {"node": "node-secret", "admin": "admin-secret", "alice": "alice-secret"}
"""Users whose credentials the directories are formatted with; alice is no super user."""


class SecuredCluster(Cluster):
    """Cluster whose listeners require a login, and a certificate of one authority."""

    def __init__(self, kinds, directory, roles):
        super().__init__(kinds, directory, roles, **REPLICATED)
        authority = Authority()
        self._authority = authority.pem_file(directory / "ca.pem")
        self._identity = authority.issue("client").pem_file(directory / "client.pem")
        for node in self.nodes:
            identity = authority.issue(f"node-{node.node_id}").pem_file(directory / f"node-{node.node_id}.pem")
            node.settings |= _settings_of(node, identity, self._authority)
        users = [f"{MECHANISM}=[name={user},password={password}]" for user, password in USERS.items()]
        self.format_options = tuple(each for user in users for each in ("--add-scram", user))
        self.client_settings = librdkafka_settings(self.login(self.nodes[0]))

    def login(self, node, user="admin", **changed):
        """Return what a client needs to be served by a broker; `changed` are other values of its fields."""
        own = Login(
            address=node.bootstrap,
            protocol=SASL_SSL,
            mechanism=MECHANISM,
            user=user,
            password=USERS[user],
            authority=self._authority,
            identity=self._identity,
        )
        return replace(own, **changed)

    def is_ready(self, node):
        with socket.create_connection((HOST, node.client_port)):
            return True


def _settings_of(node, identity, authority):
    listeners = {"broker": f"BROKERS://{node.bootstrap}", "controller": f"CONTROLLER://{node.address}"}
    login = f'username="node" password="{USERS["node"]}"'
    return {
        "listeners": ",".join(listeners[role] for role in node.roles.split(",")),
        "listener.security.protocol.map": f"BROKERS:{SASL_SSL},CONTROLLER:{SASL_SSL}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {login};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required {login} user_node="{USERS["node"]}";'
        ),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        # Without the prefix it has no effect on listeners with SASL.
        "listener.name.brokers.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": STANDARD,
        "super.users": "User:node;User:admin",
        "delegation.token.secret.key": "secret-of-the-cluster",
    } | (
        {"inter.broker.listener.name": "BROKERS", "sasl.mechanism.inter.broker.protocol": MECHANISM}
        if "broker" in node.roles
        else {}
    )
