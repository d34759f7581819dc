"""Creation of topics on request of the broker: auto-created ones and internal ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.controller.view import usable_brokers
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.seams import Clock
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.other_nodes.creation_errors import CreationErrors
from kwire.server.settings.config import BrokerConfig

PATIENCE_SECONDS = 5.0
"""Longest wait of a request for the creation of a topic; then the client has to retry."""
FROM_CONTROLLER = -1
"""Number of partitions or replication factor that lets the active controller choose."""
_PREFIXES = {
    GROUP_OFFSETS_TOPIC: "offsets.topic",
    TRANSACTION_STATE_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}
"""Prefix of each internal topic's configuration keys."""
REQUESTED_TOPICS_MAX = 10_000
"""Topics that may wait for their creation; clients have to retry for more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicSettings:
    """Settings of the topics that a broker requests for itself and for clients."""

    transaction_partitions: int = setting("transaction.state.log.num.partitions")
    transaction_replication_factor: int = setting("transaction.state.log.replication.factor")
    transaction_min_isr: int = setting("transaction.state.log.min.isr")
    transaction_segment_bytes: int = setting("transaction.state.log.segment.bytes")
    offsets_partitions: int = setting("offsets.topic.num.partitions")
    offsets_replication_factor: int = setting("offsets.topic.replication.factor")
    offsets_segment_bytes: int = setting("offsets.topic.segment.bytes")
    share_partitions: int = setting("share.coordinator.state.topic.num.partitions")
    share_replication_factor: int = setting("share.coordinator.state.topic.replication.factor")
    share_min_isr: int = setting("share.coordinator.state.topic.min.isr")
    share_segment_bytes: int = setting("share.coordinator.state.topic.segment.bytes")
    partitions: int = setting("num.partitions")
    replication_factor: int = setting("default.replication.factor")


class _RequestedTopic(NamedTuple):
    """Topic of a streams group that is to be created."""

    topic: CreatableTopic
    error_kept_ms: float


class TopicCreator:
    """Creator of topics that this broker needs."""

    def __init__(
        self,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        config: BrokerConfig,
        settings: CurrentSettings,
        clock: Clock,
    ) -> None:
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._config = config
        self._settings = settings
        self._errors = CreationErrors(clock)
        self._requested: dict[str, _RequestedTopic | None] = {}
        """Topics that clients have requested and that are not created yet, in the order of the requests.

        The topics of streams groups come with their properties.
        """
        self._woken = asyncio.Event()

    def create_soon(self, names: Iterable[str]) -> None:
        """Create topics in the background. A topic that cannot be created is dropped until the next request."""
        for name in names:
            if len(self._requested) < REQUESTED_TOPICS_MAX:
                self._requested.setdefault(name)
        self._woken.set()

    def create_streams_topics_soon(self, topics: Iterable[CreatableTopic], error_kept_ms: float) -> dict[str, str]:
        """Create internal topics of a streams group in the background; return the errors of earlier attempts by topic.

        A topic with an error is not requested again for `error_kept_ms` milliseconds.
        """
        by_name = {topic.name: topic for topic in topics}
        errors = self._errors.of(by_name)
        for name, topic in by_name.items():
            if name not in errors and len(self._requested) < REQUESTED_TOPICS_MAX:
                self._requested.setdefault(name, _RequestedTopic(topic, error_kept_ms))
        self._woken.set()
        return errors

    async def run(self) -> None:
        """Create the requested topics for as long as the broker runs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while topics_by_name := dict(self._requested):
                topics = [
                    self._creatable_topic(name) if it is None else it.topic for name, it in topics_by_name.items()
                ]
                errors = await self._request(topics)
                for name, it in topics_by_name.items():
                    if it is not None and name in errors:
                        self._errors.put(name, errors[name].message or errors[name].code.meaning, it.error_kept_ms)
                    del self._requested[name]

    async def create(self, names: Iterable[str]) -> dict[str, KafkaError]:
        """Create missing topics with the configured values, and return the errors by name.

        The topics without an error are in this broker's metadata on return.
        """
        names = list(names)
        errors = await self._request([self._creatable_topic(name) for name in names])
        await self._known([name for name in names if name not in errors])
        return errors

    async def _request(self, topics: Sequence[CreatableTopic]) -> dict[str, KafkaError]:
        """Have the controller create topics; return its errors by name."""
        request = CreateTopicsRequest(topics=list(topics))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                response = await self._active_controller.send_until_answered(request)
        except (KafkaError, TimeoutError):
            unknown_yet = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            return {topic.name: unknown_yet for topic in request.topics}
        errors = {}
        for result in response.topics:
            code = ErrorCode(result.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                errors[result.name] = KafkaError(code, result.error_message)
        return errors

    async def _known(self, names: Sequence[str]) -> None:
        """Wait until this broker's metadata contain the topics, for PATIENCE_SECONDS at
        most: they may be deleted again.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._metadata_log.reached(lambda image: all(name in image.topics for name in names))

    def _given(self, name: str, value: int) -> int:
        """Return the value of a key in this broker's file, or -1, which selects the controller's value."""
        return value if name in self._config.values else FROM_CONTROLLER

    def _limited(self, name: str, value: int, maximum: int) -> int:
        """Return the value of a key in this broker's file, or the default, limited to `maximum` and at least 1."""
        return value if name in self._config.values else max(1, min(value, maximum))

    def _count_brokers(self) -> int:
        """Return how many brokers may get replicas.

        If this node is a controller too, voters that have not registered yet count as brokers.
        """
        image = self._metadata_log.image
        voters = self._metadata_log.node.quorum.history.voters.ids if self._config.is_controller else frozenset()
        return len(usable_brokers(image)) + len(voters - image.brokers.keys())

    def _creatable_topic(self, name: str) -> CreatableTopic:
        settings, brokers = self._settings.of(InternalTopicSettings), self._count_brokers()
        if name == GROUP_OFFSETS_TOPIC:
            return _group_offsets_topic(settings, self._replicas(name, settings.offsets_replication_factor, brokers))
        if name == TRANSACTION_STATE_TOPIC:
            replicas = self._replicas(name, settings.transaction_replication_factor, brokers)
            min_isr = self._min_isr(name, settings.transaction_min_isr, replicas, brokers)
            return _transaction_state_topic(settings, replicas, min_isr)
        if name == SHARE_STATE_TOPIC:
            replicas = self._replicas(name, settings.share_replication_factor, brokers)
            min_isr = self._min_isr(name, settings.share_min_isr, replicas, brokers)
            return _share_state_topic(settings, replicas, min_isr)
        return CreatableTopic(
            name=name,
            num_partitions=self._given("num.partitions", settings.partitions),
            replication_factor=self._given("default.replication.factor", settings.replication_factor),
        )

    def _replicas(self, topic: str, value: int, brokers: int) -> int:
        return self._limited(f"{_PREFIXES[topic]}.replication.factor", value, brokers)

    def _min_isr(self, topic: str, value: int, replicas: int, brokers: int) -> int:
        return self._limited(f"{_PREFIXES[topic]}.min.isr", value, min(replicas, brokers - 1))


def _group_offsets_topic(settings: InternalTopicSettings, replicas: int) -> CreatableTopic:
    values = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_segment_bytes),
    }
    return CreatableTopic(
        name=GROUP_OFFSETS_TOPIC,
        num_partitions=settings.offsets_partitions,
        replication_factor=replicas,
        configs=_configs(values),
    )


def _transaction_state_topic(settings: InternalTopicSettings, replicas: int, min_isr: int) -> CreatableTopic:
    values = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": str(settings.transaction_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return CreatableTopic(
        name=TRANSACTION_STATE_TOPIC,
        num_partitions=settings.transaction_partitions,
        replication_factor=replicas,
        configs=_configs(values),
    )


def _share_state_topic(settings: InternalTopicSettings, replicas: int, min_isr: int) -> CreatableTopic:
    """Return a topic that is not compacted and keeps its records until the share coordinator deletes them."""
    values = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(min_isr),
        "retention.ms": "-1",
        "segment.bytes": str(settings.share_segment_bytes),
    }
    return CreatableTopic(
        name=SHARE_STATE_TOPIC,
        num_partitions=settings.share_partitions,
        replication_factor=replicas,
        configs=_configs(values),
    )


def _configs(values: Mapping[str, str]) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value) for name, value in values.items()]
