"""Consumer of a group that reads a topic from its beginning, for all Compose files."""

from collections.abc import Mapping

from confluent_kafka import Consumer

from compat_tests.harness.waiting import eventually


def consumed_values(settings: Mapping[str, str], topic: str, group: str, count: int, seconds: float) -> list[bytes]:
    """Return at least `count` values; the offsets are committed. `settings` are librdkafka's."""
    client = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    client.subscribe([topic])
    found: list[bytes] = []

    def all_are_there() -> bool:
        found.extend(each.value() for each in client.consume(500, timeout=1.0) if each.error() is None)
        return len(found) >= count

    try:
        eventually(all_are_there, f"{count} records", seconds)
        client.commit(asynchronous=False)
    finally:
        client.close()
    return found
