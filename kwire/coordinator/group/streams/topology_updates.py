"""Topology of a group during a heartbeat: stored when the first member joins, and compared with the existing topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kwire.chunks import at_once
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.request_checks import invalid
from kwire.coordinator.group.streams import records
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, configure_topology
from kwire.coordinator.group.streams.heartbeat_checks import check_tasks
from kwire.coordinator.group.streams.member_update import MemberUpdate
from kwire.coordinator.group.streams.prepared_topology import PreparedTopology
from kwire.coordinator.group.streams.settings import StreamsGroupSettings
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.streams_group import NO_TOPOLOGY_EPOCH, Configured, StreamsGroup
from kwire.coordinator.group.streams.topology import (
    Topology,
    WrittenTopology,
    are_equal,
    invalid_topology,
    topology_of,
    topology_value,
)
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

logger = logging.getLogger(__name__)

STANDBY_REPLICAS = "num.standby.replicas"
"""Name of the only assignment setting, in records."""


class TopologyUpdates:
    """Topologies of one shard's streams groups."""

    def __init__(self, environment: GroupEnvironment) -> None:
        self._environment = environment
        self.written_topology = WrittenTopology()

    def update(
        self, update: MemberUpdate, request: StreamsGroupHeartbeatRequest, prepared: PreparedTopology | None
    ) -> ConfiguredTopology:
        """Return the configured topology, and bump the group epoch if a new assignment is needed.

        Raises INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY.
        """
        group, topics = update.group, self._environment.image().topics
        topology = self._topology(update, request, prepared)
        stored = group.configured
        metadata_hash = group.metadata_hash
        if group.topology is None or stored is None or self._is_outdated(group, stored):
            metadata_hash = self._environment.hashes.of_group(topology.topics, self._environment.image())
            update.bumps = update.bumps or metadata_hash != group.metadata_hash
            if group.topology is None or (stored is not None and stored.metadata_hash != metadata_hash):
                stored = None
        configured = self._configure(topology, prepared) if stored is None else stored.topology
        if stored is None:
            logger.info("group %s: %s", group.group_id, configured.rejection or "the topology fits the topics")
        if configured.is_ready:
            check_tasks(configured.subtopologies or {}, request)
        self._bump_epoch_if_needed(update, configured, metadata_hash)
        group.configured = Configured(topology=configured, topics=topics, metadata_hash=metadata_hash)
        return configured

    def _is_outdated(self, group: StreamsGroup, stored: Configured) -> bool:
        """Return True if the topics' hash must be compared: the metadata have changed, or a write has failed."""
        return stored.topics is not self._environment.image().topics or stored.metadata_hash != group.metadata_hash

    def _configure(self, topology: Topology, prepared: PreparedTopology | None) -> ConfiguredTopology:
        topics = self._environment.image().topics
        if (
            prepared is not None
            and prepared.configured is not None
            and prepared.topics is topics
            and topology is (prepared.present or prepared.given)
        ):
            return prepared.configured
        return at_once(configure_topology(topology, topics))

    def _topology(
        self, update: MemberUpdate, request: StreamsGroupHeartbeatRequest, prepared: PreparedTopology | None
    ) -> Topology:
        """Return the group's topology, which is that of its first member."""
        group, present = update.group, update.group.topology
        if present is not None and update.after.topology_epoch < present.epoch:
            update.statuses.append(
                Status.STALE_TOPOLOGY.with_detail(
                    f"The member's topology epoch {update.after.topology_epoch} is behind the group's topology epoch "
                    f"{present.epoch}."
                )
            )
        if request.topology is None:
            if present is None:
                raise invalid_topology(f"Group {group.group_id} has no topology.")
            return present
        if present is not None and present.epoch > request.topology.epoch:
            return present
        if prepared is None or prepared.given is None or prepared.value is None or prepared.present is not present:
            value = at_once(topology_value(request.topology))
            topology = topology_of(value)
            is_same = present is not None and at_once(are_equal(topology, present))
        else:
            value, topology, is_same = prepared.value, prepared.given, prepared.is_same
        if present is None:
            update.records.append(records.topology_record(group.group_id, value))
            self.written_topology.keep(value, topology)
            return topology
        if not is_same:
            raise invalid("Topology updates are not supported yet.")
        return present

    def _bump_epoch_if_needed(self, update: MemberUpdate, configured: ConfiguredTopology, metadata_hash: int) -> None:
        group = update.group
        validated = configured.topology_epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = self.assignment_configs(group.group_id)
        if not (
            update.bumps
            or validated != group.validated_topology_epoch
            or dict(configs) != dict(group.assignment_configs)
        ):
            return
        update.epoch = group.epoch + 1
        update.records.append(
            records.epoch_record(
                group.group_id,
                update.epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated,
                configs=configs,
            )
        )
        logger.info("group %s: the epoch is now %d", group.group_id, update.epoch)

    def assignment_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the settings with which the assignor is used, as they are stored."""
        settings = self._environment.configs.of(group_id, StreamsGroupSettings)
        return {STANDBY_REPLICAS: str(settings.standby_replicas)}
