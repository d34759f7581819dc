"""A follower's fetch session with a leader: the leader's state always equals the requested partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kwire.chunks import at_once
from kwire.cluster.replication.fetch_session import FetchSession
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.fetch import FetchPartition, FetchPartitionData, FetchReplicaState, FetchRequest
from kwire.seams import SystemRandomSource
from kwire.server.fetching.fetch_sessions import FetchSessions
from kwire.server.fetching.session_watch import Key
from tests.log.support import ManualClock

KEYS = [(UUID(int=topic), index) for topic in (1, 2) for index in (0, 1, 2)]
EVENTS = ["fetch", "lose the request", "lose the answer", "restart"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wish"), st.sampled_from(KEYS), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.sampled_from(EVENTS), st.just(KEYS[0]), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Pair:
    """A follower's session and a leader, which has room for sessions or not."""

    slots: int
    follower: FetchSession = field(default_factory=FetchSession)
    wishes: dict[tuple[UUID, int], FetchPartition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.leader = FetchSessions(slots=self.slots, random_source=SystemRandomSource(), clock=ManualClock())

    def fetch(self, *, request_arrives: bool = True, answer_arrives: bool = True) -> None:
        request = FetchRequest()
        self.follower.fill(request)
        if not request_arrives:
            self.follower.reset()
            return
        try:
            plan = at_once(self.leader.plan(request, uses_topic_ids=True))
        except KafkaError:
            self.follower.reset()
            return
        assert dict(plan.partitions) == self.wishes
        session_id, _ = at_once(self.leader.conclude(plan, _nothing(plan.partitions), uses_topic_ids=True))
        if answer_arrives:
            self.follower.answered(session_id)
        else:
            self.follower.reset()


def _nothing(partitions: list[tuple[Key, FetchPartition]]) -> list[tuple[Key, FetchPartitionData]]:
    """Return the response of a leader without new data."""
    return [
        (
            key,
            FetchPartitionData(
                partition_index=key[1], error_code=0, high_watermark=0, aborted_transactions=None, records=b""
            ),
        )
        for key, _ in partitions
    ]


@given(steps=STEPS, slots=st.sampled_from([0, 10]))
def test_the_leader_session_has_the_positions_of_the_follower(
    steps: list[tuple[str, tuple[UUID, int], int]], slots: int
) -> None:
    pair = Pair(slots)
    for what, key, offset in steps:
        if what == "wish":
            wish = FetchPartition(partition=key[1], fetch_offset=offset, partition_max_bytes=1)
            pair.wishes[key] = wish
            pair.follower.set_position(key, wish)
        elif what == "forget":
            pair.wishes.pop(key, None)
            pair.follower.forget(key)
        elif what == "restart":
            pair.restart()
        else:
            pair.fetch(request_arrives=what != "lose the request", answer_arrives=what != "lose the answer")
    assert bool(pair.follower) == bool(pair.wishes)
    pair.fetch()
    pair.fetch()


def test_a_follower_that_repeats_a_full_fetch_gets_the_high_watermark_again() -> None:
    pair = Pair(10)
    key = KEYS[0]
    for offset in (5, 4):  # the second position follows a truncation, so the follower forgets the first response
        pair.follower.set_position(key, FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1))
        request = FetchRequest(replica_state=FetchReplicaState(replica_id=2, replica_epoch=1))
        pair.follower.fill(request)
        plan = at_once(pair.leader.plan(request, uses_topic_ids=True))
        session_id, news = at_once(pair.leader.conclude(plan, _nothing(plan.partitions), uses_topic_ids=True))
        pair.follower.answered(session_id)
        assert [reported for reported, _ in news] == [key]


def test_an_incremental_fetch_names_only_changed_partitions() -> None:
    pair = Pair(10)
    for key in KEYS[:3]:
        pair.wishes[key] = FetchPartition(partition=key[1], fetch_offset=0, partition_max_bytes=1)
        pair.follower.set_position(key, pair.wishes[key])
    pair.fetch()
    request = FetchRequest()
    moved = FetchPartition(partition=1, fetch_offset=9, partition_max_bytes=1)
    pair.follower.set_position(KEYS[1], moved)
    pair.follower.forget(KEYS[2])
    pair.follower.fill(request)
    assert [topic.partitions for topic in request.topics] == [[moved]]
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[2]]
    assert (request.session_id > 0, request.session_epoch) == (True, 1)
