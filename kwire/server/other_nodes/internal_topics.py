"""Creation of topics on request of the broker: auto-created ones and internal ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.controller.view import usable_brokers
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.settings.config import BrokerConfig

PATIENCE_SECONDS = 5.0
"""Longest wait of a request for the creation of a topic; then the client has to retry."""
FROM_CONTROLLER = -1
"""Number of partitions or replication factor that lets the active controller choose."""
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
    partitions: int = setting("num.partitions")
    replication_factor: int = setting("default.replication.factor")


class TopicCreator:
    """Creator of topics that this broker needs."""

    def __init__(
        self,
        active_controller: ActiveController,
        metadata_log: MetadataLog,
        config: BrokerConfig,
        settings: CurrentSettings,
    ) -> None:
        self._active_controller = active_controller
        self._metadata_log = metadata_log
        self._config = config
        self._settings = settings
        self._wanted: dict[str, None] = {}
        """Topics that clients have requested and that are not created yet, in the order of the requests."""
        self._woken = asyncio.Event()

    def create_soon(self, names: Iterable[str]) -> None:
        """Create topics in the background. A topic that cannot be created is dropped until the next request."""
        for name in names:
            if len(self._wanted) < REQUESTED_TOPICS_MAX:
                self._wanted[name] = None
        self._woken.set()

    async def run(self) -> None:
        """Create the requested topics for as long as the broker runs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while names := list(self._wanted):
                await self._create(names)
                for name in names:
                    del self._wanted[name]

    async def create(self, names: Iterable[str]) -> dict[str, KafkaError]:
        """Create missing topics with the configured values, and return the errors by name.

        The topics without an error are in this broker's metadata on return.
        """
        names = list(names)
        errors = await self._create(names)
        await self._known([name for name in names if name not in errors])
        return errors

    async def _create(self, names: Sequence[str]) -> dict[str, KafkaError]:
        """Return the errors of the controller, by name."""
        request = CreateTopicsRequest(topics=[self._creatable_topic(name) for name in names])
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
        if name == TRANSACTION_STATE_TOPIC:
            replicas = self._limited(
                "transaction.state.log.replication.factor", settings.transaction_replication_factor, brokers
            )
            min_isr = self._limited(
                "transaction.state.log.min.isr", settings.transaction_min_isr, min(replicas, brokers - 1)
            )
            return CreatableTopic(
                name=name,
                num_partitions=settings.transaction_partitions,
                replication_factor=replicas,
                configs=_configs(
                    {
                        "cleanup.policy": "compact",
                        "compression.type": "uncompressed",
                        "min.insync.replicas": str(min_isr),
                        "segment.bytes": str(settings.transaction_segment_bytes),
                        "unclean.leader.election.enable": "false",
                    }
                ),
            )
        if name != GROUP_OFFSETS_TOPIC:
            return CreatableTopic(
                name=name,
                num_partitions=self._given("num.partitions", settings.partitions),
                replication_factor=self._given("default.replication.factor", settings.replication_factor),
            )
        return CreatableTopic(
            name=name,
            num_partitions=settings.offsets_partitions,
            replication_factor=self._limited(
                "offsets.topic.replication.factor", settings.offsets_replication_factor, brokers
            ),
            configs=_configs(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(settings.offsets_segment_bytes),
                }
            ),
        )


def _configs(values: Mapping[str, str]) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value) for name, value in values.items()]
