"""Streams groups (KIP-1071): membership, and the internal topics that their topologies need.

A group's records are in __consumer_offsets, like those of the other kinds. The server layer creates internal topics
that a heartbeat has found missing.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.chunks import Pieces
from kwire.cluster.metadata.features import STREAMS_VERSION
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.answers import Answer
from kwire.coordinator.group.any_group import streams_group
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.memory import GroupMemory
from kwire.coordinator.group.modern.metadata_hash import TopicHashes
from kwire.coordinator.group.streams.describing import described_streams_group, rejected_streams_description
from kwire.coordinator.group.streams.heartbeat_checks import check_heartbeat
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeat
from kwire.coordinator.group.streams.prepared_topology import PreparedTopology, needs_preparation, prepare_topology
from kwire.coordinator.group.streams.settings import StreamsGroupConfig
from kwire.coordinator.group.streams.streams_group import PROTOCOL_TYPE, StreamsGroup
from kwire.coordinator.written_answers import GroupShard, write_and_answer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeGroup
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


class StreamsGroupCoordinator:
    """APIs of streams groups."""

    def __init__(
        self,
        *,
        shard_of: Callable[[str], GroupShard],
        memory: GroupMemory,
        image: Callable[[], MetadataImage],
        config: Callable[[], StreamsGroupConfig],
        hashes: TopicHashes,
    ) -> None:
        """Create the APIs; `shard_of` returns the active shard of a group id, or raises KafkaError."""
        self._shard_of = shard_of
        self._memory = memory
        self._image = image
        self._config = config
        self._hashes = hashes

    def is_enabled(self) -> bool:
        """Return True if the cluster has finalised streams groups, and the broker's settings enable them."""
        is_finalised = self._image().features.get(STREAMS_VERSION, 0) > 0
        return is_finalised and PROTOCOL_TYPE in self._config().protocols

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client
    ) -> Answer[StreamsHeartbeat] | Pieces[Answer[StreamsHeartbeat]]:
        """Let a member join, stay in or leave a streams group; in pieces if a large topology must be processed."""
        if needs_preparation(request.topology, self._find(request.group_id), self._image()):
            return self._heartbeat_in_pieces(request, client)
        return self._heartbeat(request, client, None)

    def _heartbeat_in_pieces(
        self, request: StreamsGroupHeartbeatRequest, client: Client
    ) -> Pieces[Answer[StreamsHeartbeat]]:
        try:
            check_heartbeat(request)
            prepared = yield from prepare_topology(
                request.topology, self._find(request.group_id), self._image(), self._hashes
            )
        except KafkaError as error:
            return _rejected(error.code, error.message)
        return self._heartbeat(request, client, prepared)

    def _find(self, group_id: str) -> StreamsGroup | None:
        """Return a streams group of this broker, or None."""
        try:
            shard = self._shard_of(group_id)
            with shard:
                group = shard.machine.groups.get(group_id)
        except KafkaError:
            return None
        return group if isinstance(group, StreamsGroup) else None

    def _heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, prepared: PreparedTopology | None
    ) -> Answer[StreamsHeartbeat]:
        try:
            if not request.group_id.strip():
                raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
            shard = self._shard_of(request.group_id)
            with shard:
                group = shard.machine.groups.get(request.group_id)
                is_accepted = self._memory.reserve_streams_member(
                    request,
                    client.client_id,
                    is_member=group is not None and request.member_id in group.members,
                    has_topology=isinstance(group, StreamsGroup) and group.topology is not None,
                )
                if not is_accepted:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                write = shard.machine.streams.heartbeat(request, client, prepared)
        except KafkaError as error:
            return _rejected(error.code, error.message)
        return write_and_answer(shard, write, _rejected)

    def describe(self, group_id: str) -> Pieces[StreamsGroupDescribeGroup]:
        if not group_id:
            return rejected_streams_description(group_id, ErrorCode.INVALID_GROUP_ID)
        try:
            shard = self._shard_of(group_id)
            with shard:
                return (yield from described_streams_group(streams_group(shard.machine.groups, group_id)))
        except KafkaError as error:
            return rejected_streams_description(group_id, error.code, error.message)


def _rejected(code: ErrorCode, message: str | None = None) -> StreamsHeartbeat:
    return StreamsHeartbeat(StreamsGroupHeartbeatResponse(error_code=code, error_message=message))
