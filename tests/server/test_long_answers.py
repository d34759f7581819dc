"""Answers made a little at a time: order, bounds, and what becomes of them when their clients leave or pay."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.server.long_answers import AT_ONCE, SLICE_MS, LongAnswers, Pieces
from tests.server.quotas.world import HandClock
from tests.server.test_client_quotas import set_quota
from tests.support.raw_client import RawClient
from tests.support.requests import unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

PIECES = 3


class World:
    """Answers whose every piece takes a slice."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.began: list[float] = []
        self.counted: list[object] = []
        quotas = SimpleNamespace(
            active=True, begin=lambda: self.began.append(self.clock.ms), count_time=self.counted.append
        )
        self.context: Any = SimpleNamespace(services=SimpleNamespace(clock=self.clock, quotas=quotas))
        self.steps: list[str] = []
        self.closed: list[str] = []

    def pieces(self, name: str, count: int = PIECES, failure: Exception | None = None) -> Pieces:
        try:
            for _ in range(count):
                self.steps.append(name)
                self.clock.ms += SLICE_MS
                yield
            if failure is not None:
                raise failure
            return name
        finally:
            self.closed.append(name)


def test_a_few_take_turns_and_the_others_wait() -> None:
    async def scenario() -> None:
        world, answers = World(), LongAnswers()
        names = [str(number) for number in range(AT_ONCE + 2)]
        made = await asyncio.gather(*(answers.make(world.pieces(name), world.context) for name in names))
        assert made == names
        first = names[:AT_ONCE]
        assert world.steps[: PIECES * AT_ONCE] == first * PIECES
        assert world.steps[PIECES * AT_ONCE :] == names[AT_ONCE:] * PIECES
        assert len(world.counted) == len(world.began) == len(names) * (PIECES + 1)

    asyncio.run(scenario())


def test_what_takes_no_time_is_made_in_one_turn() -> None:
    async def scenario() -> None:
        world, answers = World(), LongAnswers()

        def quick() -> Pieces:
            yield
            yield
            return "made"

        future = answers.make(quick(), world.context)
        assert not future.done()
        assert await future == "made"
        assert len(world.began) == 1

    asyncio.run(scenario())


def test_the_answer_of_a_client_that_left_is_not_made() -> None:
    async def scenario() -> None:
        world, answers = World(), LongAnswers()
        begun = answers.make(world.pieces("begun"), world.context)
        waiting = answers.make(world.pieces("waiting"), world.context)
        last = answers.make(world.pieces("last"), world.context)
        await asyncio.sleep(0)
        assert world.steps == ["begun"]
        begun.cancel()
        waiting.cancel()
        assert await last == "last"
        assert world.steps == ["begun", *["last"] * PIECES]
        assert world.closed == ["begun", "last"], "nobody holds on to the one that was not begun, either"
        assert not answers._waiting

    asyncio.run(scenario())


def test_a_failure_is_handed_on_and_the_next_is_made() -> None:
    async def scenario() -> None:
        world, answers = World(), LongAnswers()
        failing = answers.make(world.pieces("failing", failure=OSError("why")), world.context)
        other = answers.make(world.pieces("other"), world.context)
        assert (await asyncio.gather(failing, other, return_exceptions=True))[1] == "other"
        assert str(failing.exception()) == "why"

    asyncio.run(scenario())


def described(count: int) -> DescribeConfigsRequest:
    names: Iterator[str] = (f"group-{number}" for number in range(count))
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=32, resource_name=name, configuration_keys=None) for name in names
        ]
    )


def test_nothing_is_left_of_what_clients_asked_that_have_left(broker: RunningBroker, client: RawClient) -> None:
    for _ in range(2 * AT_ONCE):
        with broker.client() as hasty:
            hasty.send_bytes(hasty.frame(described(5000), 4))
            hasty.socket.shutdown(socket.SHUT_RDWR)
    answers = broker.server.services.long_answers
    eventually(lambda: broker.call(lambda: not answers._waiting), "the answers to be forgotten")
    assert len(client.ask(described(300), 4).results) == 300


def test_the_time_of_long_answers_is_paid_for(broker: RunningBroker, client: RawClient) -> None:
    name = unique("client")
    set_quota(client, "request_percentage", 0.01, client_id=name)
    with broker.client(client_id=name) as limited:
        assert limited.ask(described(300), 4).throttle_time_ms > 0
    set_quota(client, "request_percentage", None, client_id=name)
