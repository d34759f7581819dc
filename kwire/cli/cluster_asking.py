"""Requests of `kwire cluster status`, only by Kafka's protocol: they work with Apache Kafka's brokers too.

One broker describes brokers, quorum and partitions; each broker describes its own logs and log directories.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from kwire.cli.cluster_status import (
    NO_NODE,
    UNREACHABLE,
    Broker,
    ClusterStatus,
    Directory,
    Partition,
    Quorum,
    Voter,
)
from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from kwire.protocol.messages.list_offsets import (
    DEBUGGER,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.server.network.outgoing.addresses import shown_address
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.network.outgoing.security import PLAINTEXT, OutgoingSecurity, reason_of

CLIENT_ID = "kwire-cluster-status"
MIN_ISR = "min.insync.replicas"

Place = tuple[str, int]
"""Pair of topic and partition."""


class CannotAsk(Exception):  # noqa: N818 the name says what happened
    """No broker answers; the message is one line that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Responses of the broker that describes the cluster."""

    address: Destination
    cluster: DescribeClusterResponse
    metadata: MetadataResponse
    quorum: DescribeQuorumResponse | None
    in_sync_min: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class _Ends:
    """Responses of one broker about its own logs and log directories, or the reason why there are none."""

    offsets: dict[Place, int] = field(default_factory=dict)
    errors: dict[Place, str] = field(default_factory=dict)
    """Names of Kafka's error codes, for partitions without a log end offset."""
    directories: tuple[Directory, ...] = ()
    trouble: str | None = None


class Asking:
    """Client of the brokers; it keeps its connections from one status to the next."""

    def __init__(
        self, bootstrap: Sequence[tuple[str, int]], *, timeout_ms: int, security: OutgoingSecurity = PLAINTEXT
    ) -> None:
        self._bootstrap = [Destination(-2 - index, *address) for index, address in enumerate(bootstrap)]
        self._channel = NodeChannel(
            client_id=CLIENT_ID, software_version=version("kwire"), timeout_ms=timeout_ms, security=security
        )
        self._timeout_seconds = timeout_ms / 1000

    def close(self) -> None:
        self._channel.close()

    async def look(self) -> ClusterStatus:
        """Return the current status of the cluster. Raises CannotAsk."""
        troubles: list[str] = []
        for address in self._bootstrap:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    asked = await self._ask_one(address)
            except (Unreachable, TimeoutError) as error:
                troubles.append(f"{shown_address(address.host, address.port)}: {_reason(error)}")
            else:
                return _status(asked, await self._ends(asked))
        raise CannotAsk(f"no broker answers: {'; '.join(troubles)}")

    async def _ask_one(self, address: Destination) -> _Asked:
        cluster = await self._describe_cluster(address)
        metadata = await self._channel.send(address, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        topics = [topic.name for topic in metadata.topics]
        return _Asked(
            address=address,
            cluster=cluster,
            metadata=metadata,
            quorum=await self._describe_quorum(address),
            in_sync_min=await self._in_sync_min(address, topics),
        )

    async def _describe_cluster(self, address: Destination) -> DescribeClusterResponse:
        response: DescribeClusterResponse
        try:
            response = await self._channel.send(address, DescribeClusterRequest(include_fenced_brokers=True))
        except Unreachable:
            # A broker before Kafka 4.0 does not support include_fenced_brokers.
            response = await self._channel.send(address, DescribeClusterRequest())
        return response

    async def _describe_quorum(self, address: Destination) -> DescribeQuorumResponse | None:
        """Return the description of the quorum; None if the broker waits in vain for a controller."""
        requested_topic = DescribeQuorumRequestTopicData(
            topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
        response: DescribeQuorumResponse
        try:
            async with asyncio.timeout(self._timeout_seconds / 2):
                response = await self._channel.send(address, DescribeQuorumRequest(topics=[requested_topic]))
        except (Unreachable, TimeoutError):
            return None
        return response

    async def _in_sync_min(self, address: Destination, topics: Sequence[str]) -> dict[str, int]:
        resources = [
            DescribeConfigsResource(
                resource_type=ConfigResourceType.TOPIC, resource_name=topic, configuration_keys=[MIN_ISR]
            )
            for topic in topics
        ]
        response = await self._channel.send(address, DescribeConfigsRequest(resources=resources))
        return {
            result.resource_name: int(config.value)
            for result in response.results
            for config in result.configs
            if config.name == MIN_ISR and config.value is not None
        }

    async def _ends(self, asked: _Asked) -> dict[int, _Ends]:
        brokers = asked.cluster.brokers
        places = _places_by_broker(asked.metadata)
        ends = await asyncio.gather(*(self._ends_of(each, places.get(each.broker_id, ())) for each in brokers))
        return {broker.broker_id: each for broker, each in zip(brokers, ends, strict=True)}

    async def _ends_of(self, broker: Any, places: Iterable[Place]) -> _Ends:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in places:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        request = ListOffsetsRequest(replica_id=DEBUGGER, topics=list(topics.values()))
        destination = Destination(broker.broker_id, broker.host, broker.port)
        try:
            response = await self._channel.send(destination, request)
            directories = await self._channel.send(destination, DescribeLogDirsRequest(topics=[]))
        except (Unreachable, TimeoutError) as error:
            return _Ends(trouble=_reason(error))
        ends = _Ends(directories=_directories(directories))
        for answered in response.topics:
            for partition in answered.partitions:
                place = answered.name, partition.partition_index
                if partition.error_code == ErrorCode.NONE:
                    ends.offsets[place] = partition.offset
                else:
                    ends.errors[place] = ErrorCode(partition.error_code).name
        return ends


def _directories(response: DescribeLogDirsResponse) -> tuple[Directory, ...]:
    return tuple(
        Directory(
            path=result.log_dir,
            error=ErrorCode(result.error_code).name if result.error_code else None,
            usable_bytes=result.usable_bytes,
        )
        for result in response.results
    )


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    if isinstance(error, TimeoutError) or isinstance(cause, TimeoutError):  # asyncio's is caused by a CancelledError
        return "no answer in time"
    if isinstance(cause, asyncio.IncompleteReadError):
        return "the connection was closed"
    if isinstance(cause, socket.gaierror):
        return f"its name cannot be looked up ({(cause.strerror or str(cause)).lower()})"
    if isinstance(cause, ssl.SSLError):
        return f"the TLS handshake failed: {reason_of(cause)}"
    if isinstance(cause, UnicodeError):
        return "it is no name that could be looked up"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return str(cause) or type(cause).__name__


def _places_by_broker(metadata: MetadataResponse) -> dict[int, list[Place]]:
    places: dict[int, list[Place]] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            for replica in partition.replica_nodes:
                places.setdefault(replica, []).append((topic.name or "", partition.partition_index))
    return places


# --- from answers to a status


def _status(asked: _Asked, ends: Mapping[int, _Ends]) -> ClusterStatus:
    partitions = [_partition(topic, each, asked, ends) for topic in asked.metadata.topics for each in topic.partitions]
    return ClusterStatus(
        cluster_id=asked.cluster.cluster_id,
        asked_broker=shown_address(asked.address.host, asked.address.port),
        metadata_age_ms=_metadata_age_ms(asked),
        brokers=tuple(
            _broker(each, partitions, ends[each.broker_id])
            for each in sorted(asked.cluster.brokers, key=lambda each: each.broker_id)
        ),
        quorum=_quorum(asked.quorum),
        topics=len(asked.metadata.topics),
        partitions=len(partitions),
        replicas=sum(len(each.replicas) for each in partitions),
        unhealthy=tuple(
            sorted((each for each in partitions if not each.is_healthy), key=lambda each: (each.topic, each.index))
        ),
    )


def _partition(topic: Any, partition: Any, asked: _Asked, ends: Mapping[int, _Ends]) -> Partition:
    place = topic.name, partition.partition_index
    found = [ends[each].offsets.get(place) if each in ends else None for each in partition.replica_nodes]
    ends_of_replicas = dict(zip(partition.replica_nodes, found, strict=True))
    end = ends_of_replicas.get(partition.leader_id)
    lags = (None if end is None or each is None else max(0, end - each) for each in found)
    errors = tuple(_error(ends.get(each), place) for each in partition.replica_nodes)
    return Partition(
        topic=topic.name,
        index=partition.partition_index,
        leader=partition.leader_id,
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
        in_sync_min=asked.in_sync_min.get(topic.name, 1),
        lags=tuple(lags),
        errors=errors if any(errors) else (),
    )


def _error(ends: _Ends | None, place: Place) -> str | None:
    """Return why a replica has no log end offset; `ends` is None for a broker that is not registered."""
    if ends is None or ends.trouble is not None:
        return UNREACHABLE
    return ends.errors.get(place)


def _broker(broker: Any, partitions: Sequence[Partition], ends: _Ends) -> Broker:
    broker_id = broker.broker_id
    replicas = [each for each in partitions if broker_id in each.replicas]
    lags = [lag for each in replicas if (lag := each.lags[each.replicas.index(broker_id)]) is not None]
    is_known = ends.trouble is None
    return Broker(
        broker_id=broker_id,
        address=shown_address(broker.host, broker.port),
        rack=broker.rack,
        is_fenced=broker.is_fenced,
        trouble=ends.trouble,
        partitions=len(replicas),
        leads=sum(each.leader == broker_id for each in replicas),
        lag_sum=sum(lags) if is_known else None,
        lag_max=max(lags, default=0) if is_known else None,
        directories=ends.directories,
    )


def _quorum(response: DescribeQuorumResponse | None) -> Quorum:
    found = [partition for topic in response.topics for partition in topic.partitions] if response else []
    error = (response.error_code or (found[0].error_code if found else ErrorCode.NONE)) if response else 0
    if response is None or not found or error:
        trouble = _quorum_trouble(response, ErrorCode(error))
        return Quorum(leader_id=NO_NODE, leader_epoch=-1, high_watermark=-1, voters=(), observers=0, trouble=trouble)
    (described,) = found
    listeners = {node.node_id: node.listeners for node in response.nodes}
    leader = next((each for each in described.current_voters if each.replica_id == described.leader_id), None)
    return Quorum(
        leader_id=described.leader_id,
        leader_epoch=described.leader_epoch,
        high_watermark=described.high_watermark,
        voters=tuple(
            _voter(each, leader, listeners.get(each.replica_id, ()))
            for each in sorted(described.current_voters, key=lambda each: each.replica_id)
        ),
        observers=len(described.observers),
    )


def _quorum_trouble(response: DescribeQuorumResponse | None, code: ErrorCode) -> str:
    if response is None or code is ErrorCode.NONE:
        return "no controller answers"
    return f"{code.name}: {response.error_message}" if response.error_message else code.name


def _metadata_age_ms(asked: _Asked) -> int | None:
    """Return the time since the described broker had all committed metadata, by the clock of the quorum's leader."""
    found = [partition for topic in asked.quorum.topics for partition in topic.partitions] if asked.quorum else []
    here = next(
        (each.broker_id for each in asked.cluster.brokers if (each.host, each.port) == asked.address[1:]), NO_NODE
    )
    for described in found:
        states = {each.replica_id: each for each in (*described.observers, *described.current_voters)}
        leader, own = states.get(described.leader_id), states.get(here)
        if leader is not None and own is not None and own.last_caught_up_timestamp >= 0:
            return max(0, leader.last_caught_up_timestamp - own.last_caught_up_timestamp)
    return None


def _voter(state: Any, leader: Any, listeners: Sequence[Any]) -> Voter:
    is_leader = state is leader
    has_heartbeat = leader is not None and state.last_fetch_timestamp >= 0
    return Voter(
        node_id=state.replica_id,
        address=shown_address(listeners[0].host, listeners[0].port) if listeners else None,
        is_leader=is_leader,
        lag=None
        if leader is None or state.log_end_offset < 0
        else max(0, leader.log_end_offset - state.log_end_offset),
        # The leader's last_caught_up_timestamp is its current time.
        silent_ms=max(0, leader.last_caught_up_timestamp - state.last_fetch_timestamp) if has_heartbeat else None,
    )
