"""kafka-python as a member of a classic group: subscribes, commits its position, records its partitions."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any

from tests.history.clients.common import REQUEST_SECONDS, TOPIC, Session, key_of, partition_of, run
from tests.history.journal import Complete
from tests.history.operations import COMMITTED, INFO, OK, SUBSCRIBE

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schema loader is deprecated in newer Python versions
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.errors import KafkaError

GROUP = "members"
SESSION_TIMEOUT_MS = 4_000


class Ownership(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
    """Rebalance listener that records assigned and revoked partitions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._complete: Complete | None = None
        self.consumer: Any = None
        self.has_changed = False

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.has_changed = True
        keys = sorted(key_of(each.topic, each.partition) for each in assigned)
        if keys:
            generation = self.consumer.group_metadata().generation_id
            self._complete = self._session.journal.invoke(
                self._session.name, "own", group=GROUP, generation=generation, keys=keys
            )

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._end(OK if self.consumer.group_metadata().generation_id >= 0 else INFO)

    def on_partitions_lost(self, lost: Any) -> None:
        self._end(INFO)

    def _end(self, outcome: str) -> None:
        self.has_changed = True
        if self._complete is not None:
            self._complete(outcome)
        self._complete = None


def restore(session: Session, consumer: Any) -> None:
    """Fetch the group's offsets of this member's partitions."""
    owned = sorted(consumer.assignment())
    complete = session.journal.invoke(session.name, "restore", group=GROUP)
    try:
        offsets = {key_of(each.topic, each.partition): consumer.committed(each) for each in owned}
    except KafkaError as error:
        complete(INFO, error=repr(error))
        return
    complete(OK, offsets={key: -1 if offset is None else offset for key, offset in offsets.items()})


def store(session: Session, consumer: Any, offsets: dict[str, int]) -> None:
    generation = consumer.group_metadata().generation_id
    complete = session.journal.invoke(session.name, "store", group=GROUP, generation=generation, offsets=offsets)
    try:
        consumer.commit(
            {TopicPartition(*partition_of(key)): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        )
    except KafkaError as error:
        complete(INFO, error=repr(error))
    else:
        complete(OK)


def poll(session: Session, consumer: Any, ownership: Ownership) -> dict[str, int]:
    """Poll once and return the offsets to commit afterwards."""
    ownership.has_changed = False
    invoked = time.monotonic_ns()
    polled = consumer.poll(timeout_ms=200, max_records=50)
    records = [
        (key_of(place.topic, place.partition), record.offset, record.value.decode())
        for place, found in polled.items()
        for record in found
    ]
    if records or ownership.has_changed:
        about: dict[str, Any] = {"level": COMMITTED, "mode": SUBSCRIBE, "rebalanced": ownership.has_changed}
        session.journal.note(session.name, "poll", at=invoked, records=records, **about)
    return {key: offset + 1 for key, offset, _ in records}


def main(session: Session) -> None:
    ownership = Ownership(session)
    consumer = KafkaConsumer(
        bootstrap_servers=session.bootstrap_server,
        client_id=session.id,
        group_id=GROUP,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=500,
        request_timeout_ms=int(REQUEST_SECONDS * 4000),
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=200,
    )
    ownership.consumer = consumer
    consumer.subscribe([TOPIC], listener=ownership)
    while not session.stopping.is_set():
        with contextlib.suppress(KafkaError):
            offsets = poll(session, consumer, ownership)
            if ownership.has_changed:
                restore(session, consumer)
            if offsets:
                store(session, consumer, offsets)
    consumer.close()


if __name__ == "__main__":
    run(main, __doc__)
