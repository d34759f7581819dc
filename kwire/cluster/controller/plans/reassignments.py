"""AlterPartitionReassignments and ListPartitionReassignments: replicas move to other brokers (KIP-455, KIP-860).

A reassignment goes in steps. First the new replicas are added to the old ones, and marked as adding or removing. When
the new ones are in sync, AlterPartition or any other change removes the old ones. A reassignment without new replicas
is completed at once. Cancelling a reassignment removes the replicas that it was adding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from kwire.chunks import Pieces, mapped_by_group
from kwire.cluster.controller.election import Election
from kwire.cluster.controller.plans.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.requested_changes import RequestedChanges
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.image import MetadataImage, PartitionImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.protocol.messages.metadata_records import PartitionChangeRecord


class Reassignments(RequestedChanges):
    """Reassignments of one request, planned in pieces; a repeated partition moves on from its first reassignment."""

    def __init__(self, request: AlterPartitionReassignmentsRequest, view: ControllerView) -> None:
        self._request = request
        self._may_change_factor = request.allow_replication_factor_change
        super().__init__(view)

    def answer(self) -> Pieces[AlterPartitionReassignmentsResponse]:
        """Add the records of the reassignments to `records`, and return the response."""
        responses = yield from mapped_by_group(
            self._request.topics,
            lambda topic: topic.partitions,
            lambda topic, asked: self._add(topic.name, asked),
            lambda topic, answers: ReassignableTopicResponse(name=topic.name, partitions=answers),
        )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=self._may_change_factor, error_message=None, responses=responses
        )

    def _add(self, name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
        index = asked.partition_index
        try:
            place = self._named(name, index)
            self._add_record(place, self._record(place, asked.replicas))
        except KafkaError as error:
            return ReassignablePartitionResponse(
                partition_index=index, error_code=error.code, error_message=error.message
            )
        return ReassignablePartitionResponse(partition_index=index, error_message=None)

    def _named(self, name: str, index: int) -> Place:
        topic = self._view.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        if not 0 <= index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        return self._place(topic, index)

    def _record(self, place: Place, replicas: Sequence[int] | None) -> PartitionChangeRecord | None:
        if replicas is None:
            return plan_cancellation(self._view, place)
        check_replicas(self._view.image, replicas)
        if not self._may_change_factor:
            _check_factor(place.partition, len(replicas))
        return plan_move(self._view, place, replicas)


def plan_move(view: ControllerView, place: Place, replicas: Sequence[int]) -> PartitionChangeRecord | None:
    """Start the reassignment of a partition to these replicas, also from a reassignment in progress.

    A single replica stays in sync while its broker restarts; among several, an inactive one becomes eligible only.
    """
    partition = place.partition
    present = set(partition.replicas) - set(partition.adding_replicas)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    isr = partition.isr
    if view.is_elr_enabled and len(replicas) + len(removing) > 1:
        isr = tuple(broker for broker in isr if view.is_active(broker))
    target = Target(
        isr=isr,
        replicas=(*replicas, *removing),
        removing=removing,
        adding=tuple(sorted(set(replicas) - present)),
    )
    return plan_partition_change(view, place, target)


def plan_cancellation(view: ControllerView, place: Place) -> PartitionChangeRecord | None:
    """Cancel a reassignment: return to the replicas that are not being added."""
    partition, topic = place.partition, place.topic
    if not is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(broker for broker in partition.replicas if broker not in partition.adding_replicas)
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All replicas are being added.")
    isr = tuple(broker for broker in partition.isr if broker not in partition.adding_replicas)
    is_unclean = view.allows_unclean_election(topic)
    is_known = not partition.isr and set(replicas) & set(partition.eligible_leader_replicas)
    if not isr and not is_known and not is_unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert the assignment of {topic.name}:{place.partition_id}: only replicas that are being added "
            "are in sync, and it would take an unclean leader election.",
        )
    if not isr and not view.is_elr_enabled:
        isr = replicas[:1]  # the in-sync set must not be empty
    target = Target(
        isr=isr,
        replicas=replicas,
        removing=(),
        adding=(),
        election=Election.UNCLEAN if is_unclean else Election.ONLINE,
    )
    return plan_partition_change(view, place, target)


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def check_replicas(image: MetadataImage, replicas: Sequence[int]) -> None:
    """Reject replicas that a partition cannot have. Raises KafkaError."""
    rejection = "The manual partition assignment includes "
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{rejection}an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker == previous:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{rejection}the broker {broker} more than once.")
        if broker not in image.brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{rejection}broker {broker}, but no such broker is registered."
            )
        previous = broker


def _check_factor(partition: PartitionImage, count: int) -> None:
    """Check the replication factor; during a reassignment it is the factor after its end."""
    present = len((set(partition.replicas) | set(partition.adding_replicas)) - set(partition.removing_replicas))
    if count != present:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {count}",
        )


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Pieces[ListPartitionReassignmentsResponse]:
    """Return the reassignments in progress, of all partitions or of the requested ones."""
    asked: Iterable[tuple[str, Sequence[int]]]
    if request.topics is None:
        asked = ((name, range(len(topic.partitions))) for name, topic in image.topics.items())
    else:
        asked = ((topic.name, topic.partition_indexes) for topic in request.topics)
    found = yield from mapped_by_group(
        asked,
        lambda topic: dict.fromkeys(topic[1]),
        lambda topic, index: _ongoing(image, topic[0], index),
        lambda topic, moves: OngoingTopicReassignment(name=topic[0], partitions=list(filter(None, moves))),
    )
    moving = filter(attrgetter("partitions"), found)
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(moving))


def _ongoing(image: MetadataImage, name: str, index: int) -> OngoingPartitionReassignment | None:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions) or not is_moving(topic.partitions[index]):
        return None
    partition = topic.partitions[index]
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
