"""Complete run: start both brokers with the same settings, replay a script, and check the differences."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.differential.comparing import Difference
from compat_tests.differential.known import Excuses
from compat_tests.differential.normalising import TOPICS_OF_KAFKA
from compat_tests.differential.replaying import Replay
from compat_tests.differential.script import script
from compat_tests.differential.wire import Side
from compat_tests.harness.brokers import started_broker
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest

BROKER = 4
NEVER_CLEANED = IncrementalAlterConfigsAlterableConfig(name="log.cleaner.backoff.ms", value=str(24 * 3600 * 1000))
"""Kafka's cleaner deletes old segments of a topic with both policies (delete and compact) at an unpredictable time."""

NOT_READY = {16, 15, 14}
"""Not coordinator, not available, loading: errors before a coordinator has loaded its partition."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    differences: list[Difference] = field(default_factory=list)
    excuses: Excuses = field(default_factory=Excuses)
    played: int = 0
    seconds: float = 0.0


@contextmanager
def both_brokers(directory: Path, first: str = "kwire", second: str = "kafka") -> Iterator[tuple[str, str]]:
    """Start two brokers in their own directories; yield their addresses."""
    with ExitStack() as running:
        addresses = []
        for number, name in enumerate((first, second)):
            place = directory / f"{number}-{name}"
            place.mkdir(parents=True)
            addresses.append(running.enter_context(started_broker(name, place)).bootstrap)
        yield addresses[0], addresses[1]


def run(
    kwire: str, kafka: str, seed: int, count: int, *, most: int = 20, tell: Callable[[object], None] = print
) -> Outcome:
    """Replay a script; stop after `most` differences, because more are not useful."""
    outcome = Outcome()
    started = time.monotonic()

    def found(difference: Difference) -> None:
        if not outcome.excuses.excuse(difference):
            outcome.differences.append(difference)
            tell(difference)

    sides = Side(name="kwire", bootstrap=kwire), Side(name="kafka", bootstrap=kafka)
    for side in sides:
        _leave_logs_alone(side)
        _create_internal_topics(side)
        _coordinate(side)
    replay = Replay(kwire=sides[0], kafka=sides[1], found=found)
    for step in script(seed, count):
        replay.play(step)
        outcome.played += 1
        if len(outcome.differences) >= most:
            break
    outcome.seconds = time.monotonic() - started
    return outcome


def _leave_logs_alone(side: Side) -> None:
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, configs=[NEVER_CLEANED])
    (answer,) = side.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def _create_internal_topics(side: Side) -> None:
    """Create the topics that only Kafka creates itself and then lists among its topics."""
    topics = [CreatableTopic(name=name, num_partitions=4, replication_factor=1) for name in TOPICS_OF_KAFKA]
    made = side.ask(CreateTopicsRequest(topics=topics), 7).topics
    assert not any(each.error_code for each in made), made


def _coordinate(side: Side) -> None:
    """Create __consumer_offsets, wait until all its partitions are loaded, and wait for producer ids."""
    groups = [f"any-{number}" for number in range(24)]
    request = FindCoordinatorRequest(coordinator_keys=groups)
    transactions = [f"any-{number}" for number in range(300)]

    def ready() -> bool:
        found = side.ask(request, 6).coordinators
        beats = [side.ask(HeartbeatRequest(group_id=group, member_id="nobody"), 3).error_code for group in groups]
        side.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["any"]), 6)
        described = side.ask(DescribeTransactionsRequest(transactional_ids=transactions), 0).transaction_states
        producer = side.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
        return (
            all(each.error_code == 0 for each in found)
            and not {
                *beats,
                *(each.error_code for each in described),
                producer.error_code,
            }
            & NOT_READY
        )

    eventually(ready, f"the coordinators of {side.name}")
