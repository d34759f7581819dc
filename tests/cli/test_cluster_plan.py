"""Nodes of `kwire cluster start`, derived from numbers and ports."""

from __future__ import annotations

import pytest

from kwire.cli.cluster_plan import Shape, properties_of
from kwire.server.settings.config import load_config


def summary(brokers: int, controllers: int) -> list[tuple[str, str, int | None, int | None]]:
    shape = Shape(brokers=brokers, controllers=controllers)
    nodes = shape.nodes(range(9092, 9092 + shape.port_count))
    assert [node.node_id for node in nodes] == list(range(1, len(nodes) + 1))
    return [(node.name, node.roles, node.client_port, node.controller_port) for node in nodes]


def test_three_nodes_are_brokers_and_controllers() -> None:
    assert summary(3, 0) == [
        ("broker-1", "broker,controller", 9092, 9095),
        ("broker-2", "broker,controller", 9093, 9096),
        ("broker-3", "broker,controller", 9094, 9097),
    ]


def test_controllers_alone_have_the_ports_behind_the_brokers() -> None:
    assert summary(2, 1) == [
        ("broker-1", "broker", 9092, None),
        ("broker-2", "broker", 9093, None),
        ("controller-3", "controller", None, 9094),
    ]


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (7, 3)])
def test_an_odd_number_of_brokers_votes(brokers: int, voters: int) -> None:
    roles = [roles for _, roles, _, _ in summary(brokers, 0)]
    assert roles == ["broker,controller"] * voters + ["broker"] * (brokers - voters)


@pytest.mark.parametrize(("brokers", "controllers"), [(1, 0), (3, 0), (4, 0), (2, 3), (0, 3)])
def test_the_settings_of_each_node_can_be_together(brokers: int, controllers: int) -> None:
    shape = Shape(brokers=brokers, controllers=controllers)
    nodes = shape.nodes(range(9092, 9092 + shape.port_count))
    servers = tuple(("127.0.0.1", node.controller_port) for node in nodes if node.controller_port)
    for node in nodes:
        config = load_config(properties_of(node, nodes, f"/data/{node.name}"))
        assert config.node_id == node.node_id
        assert sorted(config.roles) == node.roles.split(",")
        assert [each.port for each in config.listeners] == [node.client_port or each.port for each in config.listeners]
        assert config.quorum_bootstrap_servers == servers
        assert config.log_dirs == (f"/data/{node.name}",)


@pytest.mark.parametrize(
    ("brokers", "controllers", "replicas", "in_sync"),
    [(0, 3, 1, 1), (1, 0, 1, 1), (2, 0, 2, 1), (3, 3, 3, 2), (5, 0, 3, 2)],
)
def test_topics_are_replicated_as_far_as_there_are_brokers(
    brokers: int, controllers: int, replicas: int, in_sync: int
) -> None:
    shape = Shape(brokers=brokers, controllers=controllers)
    nodes = shape.nodes(range(9092, 9092 + shape.port_count))
    for node in nodes:
        config = load_config(properties_of(node, nodes, "/data"))
        factors = ("default", "offsets.topic", "transaction.state.log")
        assert [config.parsed[f"{name}.replication.factor"] for name in factors] == [replicas] * 3
        assert [config.parsed[name] for name in ("min.insync.replicas", "transaction.state.log.min.isr")] == [
            in_sync
        ] * 2
