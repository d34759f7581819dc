"""confluent-kafka as a member of a share group: acknowledges each record, and records acquisitions and outcomes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, ShareConsumer

from tests.history.clients.common import REQUEST_SECONDS, TOPIC, Session, key_of, run
from tests.history.journal import Complete
from tests.history.operations import INFO, OK
from tests.history.share_events import ACCEPT, REJECT, RELEASE

GROUP = "sharers"
KINDS = (*[ACCEPT] * 12, *[RELEASE] * 3, REJECT)
"""Types of acknowledgements, drawn from this."""
SOCKET_SECONDS = 2 * REQUEST_SECONDS
"""Time limit of a request: a fetch that takes longer delivers nothing."""
COMMIT_SECONDS = 2 * SOCKET_SECONDS


def member(session: Session) -> Any:
    return ShareConsumer(
        {
            "bootstrap.servers": session.bootstrap_server,
            "client.id": session.id,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "debug": "fetch",
            "logger": session.logger("librdkafka"),
            "socket.timeout.ms": int(SOCKET_SECONDS * 1000),
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "metadata.recovery.strategy": "none",
        }
    )


def acknowledge(session: Session, consumer: Any, messages: Sequence[Any]) -> None:
    """Acknowledge all records, and record which acknowledgements were stored."""
    chosen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for message in messages:
        kind = session.random_source.choice(KINDS)
        chosen[key_of(message.topic(), message.partition()), kind].append(message.offset())
        consumer.acknowledge(message, kind)
    completes = {
        (key, kind): session.journal.invoke(
            session.name, "acknowledge", group=GROUP, key=key, offsets=offsets, acknowledge_type=kind
        )
        for (key, kind), offsets in chosen.items()
    }
    _commit(consumer, completes)


def _commit(consumer: Any, completes: Mapping[tuple[str, int], Complete]) -> None:
    try:
        results = consumer.commit_sync(COMMIT_SECONDS)
    except KafkaException as error:
        outcomes: dict[str, str | None] = {}
        default: str | None = repr(error)
    else:
        outcomes = {key_of(place.topic, place.partition): error and repr(error) for place, error in results.items()}
        default = "no result"
    for (key, _), complete in completes.items():
        problem = outcomes.get(key, default)
        complete(OK) if problem is None else complete(INFO, error=problem)


def main(session: Session) -> None:
    consumer = member(session)
    consumer.subscribe([TOPIC])
    previous = time.monotonic_ns()
    while not session.stopping.is_set():
        begun = time.monotonic_ns()
        polled = consumer.poll(0.2)
        messages = [message for message in polled if message.error() is None]
        unreadable = [
            (key_of(each.topic(), each.partition()), each.offset(), each.error().str())
            for each in polled
            if each.error() is not None and each.offset() >= 0  # others are errors of a partition or of the group
        ]
        if unreadable:  # the client releases or rejects them by itself
            session.journal.note(session.name, "unreadable", group=GROUP, records=unreadable)
        if messages:
            records = [
                (key_of(each.topic(), each.partition()), each.offset(), each.delivery_count()) for each in messages
            ]
            # A response that arrived after the previous poll began was sent at most a request's time earlier.
            asked = previous - int(SOCKET_SECONDS * 1e9)
            session.journal.note(session.name, "acquire", at=asked, group=GROUP, records=records)
            acknowledge(session, consumer, messages)
        previous = begun
    consumer.close()


if __name__ == "__main__":
    run(main, __doc__)
