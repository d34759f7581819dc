"""Seeded stream of device events: in order and out of order, late, duplicate, malformed, and with a growing schema.

The same seed gives the same events. Each has the result that it has in a correct pipeline.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

KINDS = ("temperature", "humidity", "pressure")
GARBAGE = ("", "not json", '{"event_id": "x"', "[]", '{"event_id": "x", "value": NaN}')
DUPLICATES_WITHIN = 50
"""A duplicate repeats one of this many events before it."""


class Kind(Enum):
    """Result of an event in a correct pipeline."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the events that are not as the others, from 0 to 1."""

    disordered: float = 0.05
    """Events that happened up to `disorder_seconds` before those around them."""
    duplicate: float = 0.02
    malformed: float = 0.01
    too_late: float = 0.005
    ahead: float = 0.002
    """Events dated a year ahead."""
    disorder_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Sent:
    """Event to send."""

    key: bytes
    text: str
    kind: Kind


def device_events(
    seed: int,
    *,
    start: datetime,
    per_second: float,
    devices: int = 100,
    grown_after: int = 1000,
    shares: Shares | None = None,
) -> Iterator[Sent]:
    """Return events without end. From the event `grown_after` on, some have the field firmware."""
    random_source, chosen = random.Random(seed), shares or Shares()
    recent: list[Sent] = []
    number = 0
    while True:
        now = start + timedelta(seconds=number / per_second)
        draw = random_source.random()
        if recent and draw < chosen.duplicate:
            earlier = random_source.choice(recent)
            yield Sent(earlier.key, earlier.text, Kind.DUPLICATE)
            continue
        draw -= chosen.duplicate
        sent = _event(random_source, chosen, draw, number, now, devices, has_grown=number >= grown_after)
        number += 1
        if sent.kind is Kind.COUNTED:
            recent = [*recent[-DUPLICATES_WITHIN + 1 :], sent]
        yield sent


def _event(
    random_source: random.Random,
    shares: Shares,
    draw: float,
    number: int,
    now: datetime,
    devices: int,
    *,
    has_grown: bool,
) -> Sent:
    device = f"device-{random_source.randrange(devices):05d}"
    kind, time = Kind.COUNTED, now
    if draw < shares.malformed:
        return Sent(device.encode(), random_source.choice(GARBAGE), Kind.DEAD_LETTER)
    draw -= shares.malformed
    if draw < shares.too_late:
        kind, time = Kind.DEAD_LETTER, now - timedelta(days=2)
    elif draw - shares.too_late < shares.ahead:
        kind, time = Kind.DEAD_LETTER, now + timedelta(days=365)
    elif draw - shares.too_late - shares.ahead < shares.disordered:
        time = now - timedelta(seconds=random_source.uniform(0, shares.disorder_seconds))
    fields: dict[str, object] = {
        "event_id": f"{number:09d}",
        "device_id": device,
        "kind": random_source.choice(KINDS),
        "time": time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "value": round(random_source.gauss(20, 5), 3),
    }
    if has_grown and random_source.random() < 0.5:
        fields["firmware"] = f"2.{random_source.randrange(4)}"
    return Sent(device.encode(), json.dumps(fields), kind)
