"""A metadata log with a leader, and brokers registered in it, without servers around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.controller.plans.producer_ids import plan_producer_ids
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.registrations import BrokerRegistration
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)


class NoPeers:
    """Channel of a quorum with one node."""

    async def send(self, destination: Destination, request: Any) -> Any:
        raise Unreachable(f"node {destination.node_id} is no peer of a quorum of one")


class Alone:
    """Peers of partitions without other replicas: they request nothing (kwire.cluster.partitions.in_sync)."""

    broker_id = 1

    def broker_epoch(self) -> int:
        return 1

    def now_ms(self) -> float:
        return 0.0

    def lag_max_ms(self) -> float:
        return 30_000.0

    def can_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        raise AssertionError(f"there is no broker {broker_id}")

    def is_unfenced(self, broker_id: int) -> bool:
        raise AssertionError(f"there is no broker {broker_id}")

    def is_superseded(self, broker_id: int, broker_epoch: int) -> bool:
        raise AssertionError(f"there is no broker {broker_id}")

    def send_proposal(self, partition: Any) -> None:
        raise AssertionError(f"no test may change {partition}")


async def lead(log: MetadataLog) -> None:
    """Start a quorum of one; return when this node leads and the bootstrap records are committed."""
    log.start()
    await log.reached(lambda image: log.is_active and image.offset >= 0)


async def register_broker(
    log: MetadataLog, *, broker_id: int, endpoint: tuple[str, str, int], directories: Sequence[UUID]
) -> BrokerRegistration:
    """Register a broker and unfence it."""
    name, host, port = endpoint
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=broker_id),
        broker_epoch=log.next_offset,
        end_points=[BrokerEndpoint(name=name, host=host, port=port, security_protocol=0)],
        features=[
            BrokerFeature(name=feature, min_supported_version=low, max_supported_version=high)
            for feature, (low, high) in SUPPORTED.items()
        ],
        fenced=True,
        log_dirs=list(directories),
    )
    log.append([record])
    unfence = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=record.broker_epoch, fenced=-1)
    await log.committed(log.append([unfence]))
    return log.image.brokers[broker_id]


async def allocate_producer_ids(log: MetadataLog, broker_id: int, broker_epoch: int) -> range:
    """Allocate a block of producer ids, as the active controller does."""
    record, block = plan_producer_ids(log.newest_image, broker_id, broker_epoch)
    await log.committed(log.append([record]))
    return block
