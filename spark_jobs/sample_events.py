"""Send sample events to a topic with kafka-python: `python -m spark_jobs.sample_events --bootstrap ... --topic events`.

The events are those that events_job.py counts: visits to a shop, spread evenly over the last minutes, a few of them
late. Every hundredth record is not a valid event, for the dead-letter topic.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence

from kafka import KafkaProducer

#: Key and value.
Record = tuple[bytes, bytes]

KINDS = ("view", "view", "view", "cart", "cart", "purchase", "refund")
NO_EVENTS = (b"not json", b'{"id": "e-0", "kind": "view"}', b'{"id": 7, "kind": [], "time": "yesterday"}', b"")
LATE_SECONDS_MAX = 20.0


def sample_events(count: int, *, end: float, minutes: float, bad_every: int, seed: int) -> Iterator[Record]:
    """Yield keys and values, oldest first except late events; the same arguments give the same records."""
    random_source = random.Random(seed)
    start, step = end - minutes * 60, minutes * 60 / max(count, 1)
    for number in range(count):
        user = f"user-{random_source.randrange(50)}"
        if bad_every and number % bad_every == bad_every - 1:
            yield user.encode(), NO_EVENTS[number // bad_every % len(NO_EVENTS)]
            continue
        late = random_source.uniform(0, LATE_SECONDS_MAX) if random_source.random() < 0.05 else 0.0
        yield user.encode(), _event(random_source, number, user, start + number * step - late)


def _event(random_source: random.Random, number: int, user: str, moment: float) -> bytes:
    kind = random_source.choice(KINDS)
    amount = round(random_source.uniform(1, 200), 2) if kind in ("purchase", "refund") else 0.0
    event = {"id": f"e-{number}", "kind": kind, "user": user, "amount": amount, "time": iso_time(moment)}
    return json.dumps(event).encode()


def iso_time(moment: float) -> str:
    """Return a time, in seconds since 1970, as ISO 8601 in UTC with milliseconds."""
    milliseconds = round(moment * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}Z"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", default="events")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10.0, help="the time that the events are spread over")
    parser.add_argument("--bad-every", type=int, default=100, help="each so many-th record is no event; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    events = sample_events(
        options.count, end=time.time(), minutes=options.minutes, bad_every=options.bad_every, seed=options.seed
    )
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all", linger_ms=20)
    sent = [producer.send(options.topic, key=key, value=value) for key, value in events]
    producer.flush()
    for each in sent:
        each.get(timeout=30)
    producer.close()
    print(f"{len(sent)} records sent to {options.topic}")


if __name__ == "__main__":
    main()
