"""Topics that come into being because somebody asks for them: auto-created ones and the broker's own."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.settings.config import BrokerConfig


class TopicCreator:
    """Creates topics on the broker's own behalf."""

    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._config = config

    async def create(self, names: Iterable[str]) -> dict[str, KafkaError]:
        """Create topics that are missing, with what the configuration says of them; the errors, by name."""
        wishes = [self._wish(name) for name in names]
        outcomes = await self._controller.create_topics(wishes, validate_only=False)
        return {
            wish.name: outcome
            for wish, outcome in zip(wishes, outcomes, strict=True)
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    def _wish(self, name: str) -> NewTopic:
        config = self._config
        if name == TRANSACTION_STATE_TOPIC:
            return NewTopic(
                name=name,
                num_partitions=config["transaction.state.log.num.partitions"],
                replication_factor=config["transaction.state.log.replication.factor"],
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                    "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
                    "unclean.leader.election.enable": "false",
                },
            )
        if name != GROUP_OFFSETS_TOPIC:
            return NewTopic(name=name, configs={})
        return NewTopic(
            name=name,
            num_partitions=config["offsets.topic.num.partitions"],
            replication_factor=config["offsets.topic.replication.factor"],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            },
        )
