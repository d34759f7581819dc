"""Opening of a cluster for `kwire cluster start`: the cluster is found in its directory, or created there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.cli.cluster_directory import (
    Cluster,
    ClusterRejected,
    check_identities,
    configs_of,
    find_cluster,
    form_cluster,
    lock_cluster,
    plan_cluster,
)
from kwire.cli.cluster_plan import HOST, OWN_SETTINGS, Node, Shape
from kwire.cli.cluster_ports import free_ports, taken_addresses
from kwire.server.settings.config import BrokerConfig, SettingError, parse_override

BROKERS = 3
PORT = 9092
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options of the command; None for options that were not given."""

    data: Path
    brokers: int | None
    controllers: int | None
    port: int | None
    """Port of the first broker; 0 for any free ports."""
    overrides: tuple[str, ...]


def open_cluster(options: ClusterOptions) -> Cluster:
    """Return the cluster, locked and formatted.

    Raises ClusterRejected or DiskFailure; then a new cluster leaves no files.
    """
    overrides = _overrides(options.overrides)
    found = find_cluster(options.data)
    cluster = found or _new(options)
    _check_fits(cluster, options)
    configs = configs_of(cluster, overrides)
    if found is not None:
        lock_cluster(cluster)
    _check_ports(cluster, configs)
    if found is None:
        lock_cluster(cluster)
        if find_cluster(options.data) is not None:
            raise ClusterRejected(f"{options.data}: another process just created a cluster there; start it again")
    form_cluster(cluster)
    check_identities(cluster, configs)
    return cluster


def _overrides(texts: Sequence[str]) -> list[tuple[str, str]]:
    try:
        given = [parse_override(text) for text in texts]
    except SettingError as error:
        raise ClusterRejected(str(error)) from None
    for name, _ in given:
        if name in OWN_SETTINGS:
            raise ClusterRejected(f"--override {name}: is each node's own; edit it in the node's file")
    return given


def _new(options: ClusterOptions) -> Cluster:
    brokers = BROKERS if options.brokers is None else options.brokers
    shape = Shape(brokers=brokers, controllers=options.controllers or 0)
    if not shape.port_count:
        raise ClusterRejected("--brokers 0: without brokers, name a number of --controllers")
    port = PORT if options.port is None else options.port
    if port + shape.port_count - 1 > _PORT_MAX:
        raise ClusterRejected(f"--port {port}: {shape.port_count} ports from this one on exceed 65535; use a lower one")
    ports = range(port, port + shape.port_count) if port else free_ports(HOST, shape.port_count)
    return plan_cluster(options.data, shape, ports)


def _check_fits(cluster: Cluster, options: ClusterOptions) -> None:
    """Raise ClusterRejected if the options differ from those of an existing cluster."""
    shape = cluster.shape
    if options.brokers not in (None, shape.brokers) or options.controllers not in (None, shape.controllers):
        raise ClusterRejected(
            f"{cluster.directory} holds a cluster of {shape}; leave them out, or name another directory with --data"
        )
    if options.port and options.port != cluster.ports[0]:
        raise ClusterRejected(
            f"{cluster.directory} holds a cluster that was made with --port {cluster.ports[0]}, which its metadata "
            "names; leave it out, or name another directory with --data"
        )


def _check_ports(cluster: Cluster, configs: Mapping[Node, BrokerConfig]) -> None:
    listeners = [each for config in configs.values() for each in (*config.listeners, *config.controller_listeners)]
    taken = taken_addresses((each.host, each.port) for each in listeners)
    if not taken:
        return
    are = "is" if len(taken) == 1 else "are"
    is_there = cluster.properties(cluster.nodes[0]).exists()
    hint = "end what uses it" if is_there else f"set the first of {len(listeners)} ports by --port, or 0 for any"
    raise ClusterRejected(f"{', '.join(taken)} {are} taken; {hint}")
