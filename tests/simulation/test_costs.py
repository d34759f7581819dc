"""Simulated time for work on the event loop, so that seeds find work that blocks it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.schema import schema_of
from kwire.server.apis import SERVED
from kwire.server.network.flow import turns
from kwire.server.requests.api import Api
from kwire.simulation import Simulation
from kwire.simulation.costs import LIMIT_SECONDS, SECONDS_PER_LINE, LineCosts
from kwire.simulation.loop import ProcessLoop
from kwire.simulation.timeline import Timeline
from tests.hostile.largest import Known, array_paths, long_request
from tests.support.compiled import IS_COMPILED

pytestmark = pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")

ELEMENTS = 4000
TOPICS = 20
PARTITIONS = 200
REQUESTS = 6
PATIENCE_SECONDS = 0.05
"""Maximum wait of a small request of another client."""


LISTS = [(api, path) for api in SERVED for path in array_paths(schema_of(api.request), api.max_version)]


def burn(lines: int) -> None:
    for _ in range(lines // 2):
        pass


@pytest.fixture
def busy_loop() -> Iterator[tuple[Timeline, ProcessLoop]]:
    timeline = Timeline()
    with closing(ProcessLoop(timeline, name="busy")) as loop:
        loop.costs = LineCosts()
        yield timeline, loop


def test_a_busy_process_does_not_block_other_processes(busy_loop: tuple[Timeline, ProcessLoop]) -> None:
    timeline, busy = busy_loop
    other = ProcessLoop(timeline, name="other")
    ran: list[tuple[str, float]] = []
    lines = 100_000
    busy.call_soon(burn, lines)
    busy.call_soon(lambda: ran.append(("behind it", timeline.now)))
    busy.call_later(0.001, lambda: ran.append(("a timer", timeline.now)))
    other.call_later(0.001, lambda: ran.append(("of the other", timeline.now)))
    timeline.run(lambda: len(ran) == 3)
    other.close()
    assert [name for name, _ in ran] == ["of the other", "behind it", "a timer"]
    assert ran[0][1] == pytest.approx(0.001)
    assert ran[1][1] == pytest.approx(lines * SECONDS_PER_LINE, rel=0.01)


def test_the_clock_advances_within_a_step(busy_loop: tuple[Timeline, ProcessLoop]) -> None:
    timeline, loop = busy_loop
    shown: list[float] = []

    def work() -> None:
        shown.append(loop.time())
        burn(10_000)
        shown.append(loop.time())
        loop.call_later(0.001, lambda: shown.append(loop.time()))

    loop.call_soon(work)
    timeline.run(lambda: len(shown) == 3)
    assert shown[1] - shown[0] == pytest.approx(10_000 * SECONDS_PER_LINE, rel=0.01)
    assert shown[2] - shown[1] == pytest.approx(0.001, rel=0.01)


def test_the_place_where_a_step_became_too_long_is_reported(busy_loop: tuple[Timeline, ProcessLoop]) -> None:
    timeline, loop = busy_loop
    costs = loop.costs = LineCosts()
    loop.call_soon(burn, round(LIMIT_SECONDS / SECONDS_PER_LINE) - 1000)
    loop.call_soon(lambda: None)
    timeline.run(lambda: not timeline._ready and not timeline._timers)
    assert costs.too_long == []
    loop.call_soon(burn, round(LIMIT_SECONDS / SECONDS_PER_LINE) + 1000)
    timeline.run(lambda: not timeline._ready and not timeline._timers)
    assert len(costs.too_long) == 1
    assert costs.longest_seconds > LIMIT_SECONDS


Floods = Callable[[random.Random, Known], Iterator[tuple[Api, Any]]]
"""Requests of each flooding client, in order."""


def drawn(random_source: random.Random, known: Known) -> Iterator[tuple[Api, Any]]:
    for _ in range(REQUESTS):
        api, path = random_source.choice(LISTS)
        count = min(ELEMENTS, schema_of(api.request).elements_max // 2)
        yield api, long_request(api, path, count, known if random_source.random() < 0.5 else None)


def starve(seed: int, floods: Floods = drawn, clients: int = 1) -> tuple[LineCosts, float]:
    """Return the costs of a broker's steps with this many flooding clients, and the longest wait of another client."""
    random_source = random.Random(seed)
    costs = LineCosts()
    waits: list[float] = []
    with Simulation(seed=seed, own_machine=True) as simulation:
        broker = simulation.broker("broker-1")

        async def prepare() -> Known:
            await broker.start()
            names = [f"t{number}" for number in range(TOPICS)]
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
            topics[0].num_partitions = PARTITIONS
            with closing(await simulation.connect(broker)) as client:
                made = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
            return Known(tuple(names), tuple(topic.topic_id for topic in made.topics), ("g",), PARTITIONS)

        async def flood(known: Known) -> None:
            for api, request in floods(random_source, known):
                with closing(await simulation.connect(broker)) as client, suppress(OSError):  # may be rejected
                    await client.ask(request, api.max_version, seconds=60)

        async def watch(is_over: asyncio.Event) -> None:
            heartbeat = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
            with closing(await simulation.connect(broker)) as client:
                while not is_over.is_set():
                    began = simulation.now
                    await client.ask(heartbeat, 4, seconds=60)
                    waits.append(simulation.now - began)
                    await asyncio.sleep(0.01)

        async def scenario() -> None:
            known = await prepare()
            simulation.charge(costs)
            is_over = asyncio.Event()
            watching = asyncio.ensure_future(watch(is_over))
            await asyncio.gather(*(flood(known) for _ in range(clients)))
            is_over.set()
            await watching

        simulation.run(scenario(), seconds=3600)
    return costs, max(waits)


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(1, 7), 36, 39])
def test_no_request_starves_another_client(seed: int) -> None:
    costs, longest_wait = starve(seed)
    assert costs.too_long == []
    assert longest_wait < PATIENCE_SECONDS


@pytest.mark.long
@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FIND_COORDINATOR, ApiKey.FETCH])
def test_twenty_flooding_clients_do_not_starve_another_client(key: ApiKey) -> None:
    """All clients send at the same time; small requests precede large ones, and their responses are sent at once."""
    api, path = next(each for each in LISTS if each[0].key is key)

    def same(_: random.Random, known: Known) -> Iterator[tuple[Api, Any]]:
        yield api, long_request(api, path, ELEMENTS // 2, known)

    costs, longest_wait = starve(1, same, clients=20)
    assert costs.too_long == []
    assert longest_wait < PATIENCE_SECONDS


def test_a_turn_without_a_time_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug runs all steps without a turn of the loop."""
    for name in ("TURN_MS", "SHARE_MS", "FREE_MS"):
        monkeypatch.setattr(turns, name, 1e9)
    found = [seed for seed in range(1, 7) if starve_is_found(seed)]
    assert found


def starve_is_found(seed: int) -> Any:
    costs, longest_wait = starve(seed)
    return costs.too_long or longest_wait >= PATIENCE_SECONDS
