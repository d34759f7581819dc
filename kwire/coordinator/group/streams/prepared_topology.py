"""Preparation of a large topology in pieces, before the rules of a heartbeat run: they then find the results.

The group may change between two pieces. A result counts only for the objects from which it was computed.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.chunks import Pieces
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology, configure_topology
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.topology import (
    SMALL,
    Topology,
    are_equal,
    count_elements,
    topology_of,
    topology_value,
)
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatTopology
from kwire.protocol.messages.streams_group_records import StreamsGroupTopologyValue


class PreparedTopology(NamedTuple):
    """Topology of a heartbeat, compared with that of the group, and configured."""

    value: StreamsGroupTopologyValue | None
    given: Topology | None
    """Topology of the request, which has been stored as `value`; None without one."""
    present: Topology | None
    """Topology of the group."""
    is_same: bool
    """True if both are equal."""
    configured: ConfiguredTopology | None
    """Configured topology of the group, or else of the request."""
    topics: dict[str, TopicImage] | object
    """All topics for which it is configured."""


def needs_preparation(
    topology: StreamsGroupHeartbeatTopology | None, group: StreamsGroup | None, image: MetadataImage
) -> bool:
    """Return True if a heartbeat would process a large topology."""
    if topology is not None and count_elements(topology) > SMALL:
        return True
    if group is None or group.topology is None or len(group.topology.topics) <= SMALL:
        return False
    return group.configured is None or group.configured.topics is not image.topics


def prepare_topology(
    topology: StreamsGroupHeartbeatTopology | None,
    group: StreamsGroup | None,
    image: MetadataImage,
    hashes: TopicHashes,
) -> Pieces[PreparedTopology]:
    """Prepare a heartbeat with this topology. Raises STREAMS_INVALID_TOPOLOGY."""
    value = given = None
    if topology is not None:
        value = yield from topology_value(topology)
        given = topology_of(value)
        yield
    present = None if group is None else group.topology
    is_same = False
    if given is not None and present is not None:
        is_same = yield from are_equal(given, present)
    configured = None
    chosen = present or given
    if chosen is not None and (is_same or given is None or present is None):
        yield from hashes.prepare(chosen.topics, image)
        configured = yield from configure_topology(chosen, image.topics)
    return PreparedTopology(value, given, present, is_same, configured, image.topics)
