"""confluent-kafka as a member of a consumer group (KIP-848): commits its position, records its partitions."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.history.clients.common import TOPIC, Session, key_of, partition_of, run
from tests.history.clients.reader import consumer, record_of
from tests.history.journal import Complete
from tests.history.operations import COMMITTED, INFO, OK, SUBSCRIBE

GROUP = "consumer-members"
COMMIT_SECONDS = 6.0


class Ownership:
    """Record of the partitions that the member has: each is an operation from its assignment to its revocation."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._owned: dict[str, Complete] = {}
        self.has_changed = False

    @property
    def keys(self) -> list[str]:
        return sorted(self._owned)

    def assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self.has_changed = True
        for place in places:
            key = key_of(place.topic, place.partition)
            self._owned[key] = self._session.journal.invoke(self._session.name, "own", group=GROUP, keys=[key])

    def revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._end(places, OK)

    def lose(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._end(places, INFO)

    def _end(self, places: list[TopicPartition], outcome: str) -> None:
        self.has_changed = True
        for place in places:
            self._owned.pop(key_of(place.topic, place.partition))(outcome)


def restore(session: Session, member: Any, keys: list[str]) -> None:
    """Fetch the group's offsets of this member's partitions."""
    complete = session.journal.invoke(session.name, "restore", group=GROUP)
    try:
        found = member.committed([TopicPartition(*partition_of(key)) for key in keys], timeout=COMMIT_SECONDS)
    except KafkaException as error:
        complete(INFO, error=repr(error))
        return
    if any(place.error is not None for place in found):
        complete(INFO, error=repr(found))
        return
    complete(OK, offsets={key_of(place.topic, place.partition): max(-1, place.offset) for place in found})


def store(session: Session, member: Any, offsets: dict[str, int]) -> None:
    complete = session.journal.invoke(session.name, "store", group=GROUP, offsets=offsets)
    places = [TopicPartition(*partition_of(key), offset) for key, offset in offsets.items()]
    try:
        stored = member.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        complete(INFO, error=repr(error))
        return
    failed = [place.error for place in stored if place.error is not None]
    complete(INFO, error=repr(failed)) if failed else complete(OK)


def poll(session: Session, member: Any, ownership: Ownership) -> dict[str, int]:
    """Poll once and return the offsets to commit afterwards."""
    ownership.has_changed = False
    invoked = time.monotonic_ns()
    records = [record_of(message) for message in member.consume(50, 0.2) if message.error() is None]
    if records or ownership.has_changed:
        about: dict[str, Any] = {"level": COMMITTED, "mode": SUBSCRIBE, "rebalanced": ownership.has_changed}
        session.journal.note(session.name, "poll", at=invoked, records=records, **about)
    return {key: offset + 1 for key, offset, _ in records}


def main(session: Session) -> None:
    ownership = Ownership(session)
    member = consumer(
        session.bootstrap_server, COMMITTED, client_id=session.id, group_id=GROUP, group_protocol="consumer"
    )
    member.subscribe([TOPIC], on_assign=ownership.assign, on_revoke=ownership.revoke, on_lost=ownership.lose)
    while not session.stopping.is_set():
        with contextlib.suppress(KafkaException):
            offsets = poll(session, member, ownership)
            if ownership.has_changed and ownership.keys:
                restore(session, member, ownership.keys)
            if offsets:
                store(session, member, offsets)
    member.close()


if __name__ == "__main__":
    run(main, __doc__)
