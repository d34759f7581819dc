"""Three nodes that authenticate at each other by SCRAM: quorum, registration, replication, re-authentication."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compat_tests.harness.ports import free_ports
from kwire.cli import main
from kwire.cluster.configs.settings import CurrentSettings
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.seams import SystemClock, ThreadWorkers
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.client import LoginError, NodeLogin
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kwire.server.security.sasl.node_logins import check_node_logins, login_at_brokers
from kwire.server.settings.config import SettingError, make_config
from kwire.server.settings.dynamic_configs import DynamicConfigs
from tests.server.security.sasl.frames import PLAIN_JAAS
from tests.server.security.sasl.logins import alter, log_in, upsertion
from tests.support.certificates import Authority, pem_settings
from tests.support.requests import batch, create_request, produce_request
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

CLUSTER_ID = "vqbMkXcHSCi2oJQ2pWmTnw"
NODES = (1, 2, 3)
SCRAM = "SCRAM-SHA-512"
LIFETIME_MS = 2000


def settings_of(
    node_id: int, ports: list[int], directory: Path, *, mechanism: str = SCRAM, protocol: str = "SASL_PLAINTEXT"
) -> dict[str, str]:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="node" password="node-secret" user_node="node-secret";'
    own = mechanism.lower()
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:{ports[node_id - 1]}",
        "listener.security.protocol.map": f"CLIENTS:{protocol},INTERNAL:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{ports[node - 1]}" for node in NODES),
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        "sasl.enabled.mechanisms": mechanism,
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": PLAIN_JAAS,
        f"listener.name.internal.{own}.sasl.jaas.config": jaas,
        f"listener.name.controller.{own}.sasl.jaas.config": jaas,
        "listener.name.internal.connections.max.reauth.ms": str(LIFETIME_MS),
        "listener.name.controller.connections.max.reauth.ms": str(LIFETIME_MS),
        "log.dirs": str(directory / str(node_id)),
        "offsets.topic.num.partitions": "1",
        "authorizer.class.name": STANDARD,
        "super.users": "User:node;User:admin",
    }


def format_node(node_id: int, ports: list[int], directory: Path) -> None:
    properties = directory / f"{node_id}.properties"
    properties.write_text("".join(f"{k}={v}\n" for k, v in settings_of(node_id, ports, directory).items()))
    users = ["--add-scram", f"{SCRAM}=[name=node,password=node-secret]"]
    ended = CliRunner().invoke(main, ["format", "-c", str(properties), "-t", CLUSTER_ID, *users])
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    ("mechanism", "protocol"), [(SCRAM, "SASL_PLAINTEXT"), ("PLAIN", "SASL_PLAINTEXT"), (SCRAM, "SASL_SSL")]
)
def test_three_nodes_over_sasl(mechanism: str, protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    tls = authority.client() if protocol == "SASL_SSL" else None
    stores = {} if tls is None else pem_settings(authority.issue(), authority)
    caplog.set_level(logging.DEBUG, "kwire.server.security")
    ports = free_ports(3)
    for node in NODES:
        format_node(node, ports, tmp_path)
    with ExitStack() as stack:
        with ThreadPoolExecutor(3) as pool:
            starts = [
                pool.submit(
                    RunningBroker,
                    tmp_path / str(node),
                    settings_of(node, ports, tmp_path, mechanism=mechanism, protocol=protocol) | stores,
                )
                for node in NODES
            ]
            brokers = [stack.enter_context(start.result()) for start in starts]
        clients = [stack.enter_context(broker.client(tls=tls)) for broker in brokers]
        for client in clients:
            assert log_in(client, "PLAIN", "admin", "x") == ""
        eventually(lambda: len(clients[0].ask(MetadataRequest(topics=[]), 12).brokers) == 3, "three brokers")
        created = clients[0].ask(create_request("t", replicas=3), 7)
        assert created.topics[0].error_code == 0
        (topic,) = eventually(lambda: clients[0].ask(MetadataRequest(topics=None), 12).topics, "the topic")
        leader = topic.partitions[0].leader_id

        def logged(words: str) -> int:
            return sum(words in record.getMessage() for record in caplog.records)

        def produced() -> bool:
            response = clients[leader - 1].ask(produce_request("t", batch(b"x"), acks=-1), 9)
            return bool(response.responses[0].partition_responses[0].error_code == 0)

        eventually(produced, "a record on three brokers")
        again = "successful re-authentication of 'node' from 127.0.0.1 at listener "
        eventually(lambda: logged(again + "INTERNAL") and logged(again + "CONTROLLER"), "logins of nodes again")
        assert produced()

        assert alter(clients[0], [upsertion("carol")]) == {"carol": (0, None)}
        for broker in brokers:

            def logs_in(broker: RunningBroker = broker) -> bool:
                with broker.client(tls=tls) as client:
                    return log_in(client, "SCRAM-SHA-256", "carol", "secret") == ""

            eventually(logs_in, "the new user at every broker")
        assert logged("failed") == logged("failed authentication of 'carol'")
        assert not logged("node-secret")


def test_altered_credentials_count_for_the_next_login_at_a_broker(tmp_path: Path) -> None:
    config = make_config(settings_of(1, free_ports(3), tmp_path))
    current = CurrentSettings(config.parsed)
    dynamic = DynamicConfigs(1, current)
    found = login_at_brokers(config, current, dynamic, workers=ThreadWorkers(), clock=SystemClock())
    assert found is not None
    login: NodeLogin = found
    asked: list[Any] = []

    async def ask(request: Any) -> Any:
        asked.append(request)
        return SaslHandshakeResponse(error_code=33)

    async def log_in_as(mechanism: str, user: str) -> str:
        dynamic.own = {
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="{user}" password="Geheim";'
            ),
        }
        current.replace({**config.parsed, "sasl.mechanism.inter.broker.protocol": mechanism})
        with pytest.raises(LoginError) as error:
            await login.log_in(ask, where="b:1")
        assert "Geheim" not in str(error.value)
        return str(error.value)

    message = "cannot log in at b:1 as other with SASL mechanism SCRAM-SHA-256: error 33; it enables none"
    assert asyncio.run(log_in_as("SCRAM-SHA-256", "other")) == message
    assert asked == [SaslHandshakeRequest(mechanism="SCRAM-SHA-256")]
    assert "has no username" in asyncio.run(log_in_as("SCRAM-SHA-512", ""))


def test_a_node_without_credentials_does_not_start(tmp_path: Path) -> None:
    own = settings_of(1, free_ports(3), tmp_path)
    key = f"listener.name.internal.{SCRAM.lower()}.sasl.jaas.config"
    for changed, expected in (
        (
            {key: f"{SCRAM_MODULE} required;"},
            (f"{key}: has no username and password, with which this node logs in at other nodes; add them"),
        ),
        ({key: ""}, f"{key}: JAAS config property does not contain any login modules"),
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            (
                "sasl.mechanism.inter.broker.protocol: GSSAPI is not served, and listener INTERNAL uses "
                "SASL; use one of PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
            ),
        ),
    ):
        with pytest.raises(SettingError) as error:
            check_node_logins(make_config({**own, **changed}))
        assert str(error.value) == expected
    check_node_logins(make_config(own))
