"""Quorum configuration of this node, from its settings and directories."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kwire.cluster.channel import Channel
from kwire.cluster.configs.settings import read_settings, setting
from kwire.cluster.controller.eligible_leaders import plan_safe_min_insync
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.formatting.formatting import bootstrap_records
from kwire.cluster.metadata.image import MetadataImage, UnknownRecord
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.voters import Listener, VoterSet
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.raft.metadata_node import open_metadata_log
from kwire.log.disk import Disk
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.recovery import Surroundings
from kwire.seams import Workers
from kwire.server.node.storage import Storage, controller_endpoint
from kwire.server.settings.config import BrokerConfig

NO_PORTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSegments:
    """Settings of the metadata log's segments."""

    bytes_max: int = setting("metadata.log.segment.bytes")
    ms_max: int = setting("metadata.log.segment.ms")


def quorum_config(config: BrokerConfig, storage: Storage, ports: Mapping[str, int] = NO_PORTS) -> QuorumConfig:
    """Return the quorum's configuration; `ports` are the bound ports of listeners that are set to port 0."""
    return read_settings(
        QuorumConfig,
        config.parsed,
        cluster_id=storage.cluster_id,
        node_id=config.node_id,
        directory_id=storage.metadata_directory_id,
        listener=config.controller_listener_names[0],
        endpoints=controller_endpoints(config, ports),
        bootstrap_servers=config.quorum_bootstrap_servers,
        can_become_voter=config.is_controller,
    )


def controller_endpoints(config: BrokerConfig, ports: Mapping[str, int] = NO_PORTS) -> tuple[Listener, ...]:
    """Return where other nodes reach this node's controller; empty for a broker."""
    advertised = config.advertised_controller_listeners
    if advertised or not config.is_controller:
        return tuple(
            Listener(each.name, each.host or socket.getfqdn(), each.port or ports.get(each.name, 0))
            for each in advertised
        )
    return (Listener(*controller_endpoint(config)),)


def static_voters(config: BrokerConfig) -> VoterSet | None:
    """Return the voters for a log that stores none: the configured ones, or this node if no quorum is configured."""
    name = config.controller_listener_names[0]
    if config.quorum_voters:
        return VoterSet.static(config.quorum_voters, name)
    if not config.is_default_quorum:
        return None
    _, host, port = controller_endpoint(config)
    return VoterSet.static([(config.node_id, host, port)], name)


def open_metadata(
    config: BrokerConfig,
    quorum: QuorumConfig,
    *,
    surroundings: Surroundings,
    workers: Workers,
    channel: Channel,
) -> MetadataLog:
    """Open the metadata log of the node, without joining the quorum yet. Raises DirectoryRejected."""
    segments = read_settings(MetadataSegments, config.parsed)
    return open_metadata_log(
        quorum,
        directory=f"{config.metadata_dir}/{METADATA_DIRECTORY}",
        surroundings=surroundings,
        workers=workers,
        channel=channel,
        static_voters=static_voters(config),
        bootstrap=_bootstrap(config, surroundings.disk),
        segment_bytes=segments.bytes_max,
        segment_ms=segments.ms_max,
    )


def _bootstrap(config: BrokerConfig, disk: Disk) -> list[Any]:
    """Return the first records of a new cluster, in case this node becomes its first leader.

    Raises DirectoryRejected if the directory was formatted with features that kwire does not serve.
    """
    records = bootstrap_records(disk, config.metadata_dir)
    try:
        image = MetadataImage().apply(records, offset=0, epoch=0)
    except UnknownRecord as error:
        raise DirectoryRejected(
            f"log.dirs: {config.metadata_dir} cannot be served: {error}; format it with supported features"
        ) from None
    view = ControllerView(image=image, settings=config.parsed, controller_id=config.node_id)
    return [*records, *(plan_safe_min_insync(view) if view.is_elr_enabled else ())]


def reject_other_voters(metadata_log: MetadataLog, quorum: QuorumConfig) -> None:
    """Raise DirectoryRejected if no quorum is configured and this node is not the only voter of the log."""
    voters = metadata_log.node.quorum.history.voters
    if not voters.ids:
        raise DirectoryRejected(
            "log.dirs: the metadata log has no voters, and none are configured; format the directories of the only "
            "node with --standalone, or name the others in controller.quorum.bootstrap.servers"
        )
    if not voters.is_only_voter(quorum.key):
        others = ", ".join(str(voter) for voter in sorted(voters.ids))
        raise DirectoryRejected(
            f"log.dirs: the voters of the metadata log are the nodes {others}, in directories that this node does not "
            "have or not alone; name them in controller.quorum.bootstrap.servers"
        )
