"""Requested elections (ElectLeaders: KIP-183, KIP-460) and the controller's periodic ones.

Preferred replicas become leaders again every leader.imbalance.check.interval.seconds, with
auto.leader.rebalance.enable. Partitions without a leader get an unclean one every unclean.leader.election.interval.ms,
if their topic allows it. Such a sweep makes a limited number of elections; when it reaches the limit, it is repeated at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from kwire.chunks import Pieces, chunks, mapped_by_group
from kwire.cluster.controller.election import Election
from kwire.cluster.controller.long_plans import PLANNED_AT_ONCE, places_where, records_for
from kwire.cluster.controller.plans.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.requested_changes import RequestedChanges
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)
from kwire.protocol.messages.metadata_records import PartitionChangeRecord

ELECTIONS_PER_SWEEP_MAX = 1000
"""Maximum elections of a sweep, as in Kafka: the partitions of a large cluster change leaders in portions."""


class ElectionType(IntEnum):
    """Election types of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class Elections(RequestedChanges):
    """Elections of one request, planned in pieces; skips partitions that an earlier one gave a leader."""

    def __init__(self, request: ElectLeadersRequest, view: ControllerView) -> None:
        """Create the plan. Raises KafkaError INVALID_REQUEST for an unknown type."""
        if request.election_type not in ElectionType.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        self._kind = ElectionType(request.election_type)
        self._is_of_all = request.topic_partitions is None
        self._requested: Iterable[tuple[str, Sequence[int]]]
        if request.topic_partitions is None:
            self._requested = ((name, range(len(topic.partitions))) for name, topic in view.image.topics.items())
        else:
            self._requested = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
        super().__init__(view)

    def answer(self) -> Pieces[ElectLeadersResponse]:
        """Add the records of the elections to `records`, and return the response."""
        results = yield from mapped_by_group(
            self._requested, lambda topic: topic[1], lambda topic, index: self._add(topic[0], index), self._result
        )
        if self._is_of_all:  # leave out topics that were deleted meanwhile
            results = [each for each in results if each.topic in self._view.image.topics]
        return ElectLeadersResponse(replica_election_results=results)

    def _result(
        self, topic: tuple[str, Sequence[int]], results: list[ElectLeadersPartitionResult]
    ) -> ReplicaElectionResult:
        if self._is_of_all:  # leave out partitions that need no election
            results = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        return ReplicaElectionResult(topic=topic[0], partition_result=results)

    def _add(self, name: str, index: int) -> ElectLeadersPartitionResult:
        try:
            self._elect(name, index)
        except KafkaError as error:
            return ElectLeadersPartitionResult(
                partition_id=index, error_code=error.code, error_message=error.message or error.code.meaning
            )
        return ElectLeadersPartitionResult(partition_id=index, error_message=None)

    def _elect(self, name: str, index: int) -> None:
        topic = self._view.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        if not 0 <= index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        place = self._place(topic, index)
        partition = place.partition
        is_unclean = self._kind is ElectionType.UNCLEAN
        if partition.leader != NO_LEADER if is_unclean else has_preferred_leader(partition):
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        election = Election.UNCLEAN if is_unclean else Election.PREFERRED
        record = plan_partition_change(self._view, place, Target(election=election))
        if record is None and is_unclean:
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
            )
        if record is None:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
        self._add_record(place, record)


def has_preferred_leader(partition: PartitionImage) -> bool:
    return partition.leader == partition.replicas[0]


def plan_preferred_leaders(
    view: ControllerView, *, limit: int = ELECTIONS_PER_SWEEP_MAX
) -> Pieces[list[PartitionChangeRecord]]:
    """Elect the preferred replicas as leaders; a result as long as the limit means that there may be more to do."""
    places = yield from places_where(view, lambda partition: not has_preferred_leader(partition))
    return (yield from _elections(view, places, Election.PREFERRED, limit))


def plan_unclean_leaders(
    view: ControllerView, *, limit: int = ELECTIONS_PER_SWEEP_MAX
) -> Pieces[list[PartitionChangeRecord]]:
    """Elect leaders for partitions without one, if their topics allow unclean ones; see plan_preferred_leaders."""
    places = yield from places_where(view, lambda partition: partition.leader == NO_LEADER)
    allows: dict[str, bool] = {}
    """Setting by topic, read once."""

    def allows_unclean(topic: TopicImage) -> bool:
        if topic.name not in allows:
            allows[topic.name] = view.allows_unclean_election(topic)
        return allows[topic.name]

    return (yield from _elections(view, places, Election.UNCLEAN, limit, is_allowed=allows_unclean))


def _elections(
    view: ControllerView,
    places: Sequence[Place],
    election: Election,
    limit: int,
    *,
    is_allowed: Callable[[TopicImage], bool] = lambda _: True,
) -> Pieces[list[PartitionChangeRecord]]:
    target = Target(election=election)

    def plan(place: Place) -> PartitionChangeRecord | None:
        return plan_partition_change(view, place, target) if is_allowed(place.topic) else None

    records: list[PartitionChangeRecord] = []
    for some in chunks(places, PLANNED_AT_ONCE):
        records += yield from records_for(some, plan)
        if len(records) >= limit:
            break
    return records[:limit]
