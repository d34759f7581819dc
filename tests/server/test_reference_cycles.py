"""Memory of failed requests: freed at once, although a traceback references frames with their data.

A full collection of cycles may be far away (kwire/kept_objects.py), and a frame may hold 100 MB.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from kwire import event_loop
from kwire.chunks import Steps, in_turns, whole
from kwire.cluster.channel import Destination, Unreachable
from kwire.coordinator.answers import when_all_answered, when_answered
from kwire.coordinator.written_answers import with_late_errors
from kwire.seams import ThreadWorkers
from kwire.server.apis.transactions.errors import rejecting
from kwire.server.network.outgoing.node_channel import NodeChannel
from kwire.server.node.tracked_workers import TrackedWorkers
from kwire.server.other_nodes.active_controller import ActiveController, NoActiveControllerError
from kwire.server.other_nodes.request_batches import RequestBatches
from tests.server.test_active_controller import ONE, Channel, Log, run, unreachable


class Work(list[int]):
    """Data of a request."""


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Disable the garbage collector, so that objects in cycles stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_freed(fail: Callable[[Work], Awaitable[Any]], error: type[Exception]) -> bool:
    """Return True if the work has no references left after its failure was handled."""

    async def main() -> bool:
        work = Work([1])
        watched = weakref.ref(work)
        with pytest.raises(error) as raised:
            await fail(work)
        del work, raised
        await asyncio.sleep(0)
        return watched() is None

    return event_loop.run(main())


def test_a_failed_worker_call_leaves_no_reference_cycle() -> None:
    workers = TrackedWorkers(ThreadWorkers(1))

    async def fail(work: Work) -> None:
        await workers.run(lambda: work[5])

    assert is_freed(fail, IndexError)
    workers.close()


def test_steps_that_wait_for_a_failed_future_leave_no_reference_cycle() -> None:
    async def later(work: Work) -> int:
        return work[5]

    def steps(work: Work) -> Steps[None]:
        try:
            yield asyncio.ensure_future(later(work))
        except IndexError as error:
            raise ValueError from error

    def fail(work: Work) -> Awaitable[None]:
        return in_turns(steps(work))

    assert is_freed(fail, ValueError)


WAITS: dict[str, Callable[[asyncio.Future[Any]], Any]] = {
    "when_answered": lambda answer: when_answered(answer, repr),
    "when_all_answered": lambda answer: when_all_answered([answer], sum),
    "with_late_errors": lambda answer: with_late_errors(answer, repr),
    "rejecting": lambda answer: rejecting(lambda: cast("Any", answer), repr, repr),
    "whole": whole,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_failed_answer_leaves_no_reference_cycle(wait: Callable[[asyncio.Future[Any]], Any]) -> None:
    async def later(work: Work) -> int:
        return work[5]

    async def fail(work: Work) -> None:
        await wait(asyncio.ensure_future(later(work)))

    assert is_freed(fail, IndexError)


def test_an_unreachable_controller_leaves_no_reference_cycle() -> None:
    watched: list[weakref.ref[Work]] = []

    async def scenario(way: ActiveController) -> None:
        request = Work()
        watched.append(weakref.ref(request))
        with pytest.raises(NoActiveControllerError) as raised:
            await way.send(request)
        del request, raised

    channel = Channel(unreachable)
    run(Log(ONE), channel, scenario)
    channel.asked.clear()
    assert watched[0]() is None


def test_a_refused_connection_leaves_no_reference_cycle() -> None:
    channel = NodeChannel(client_id="c", software_version="1", timeout_ms=5000)

    async def fail(work: Work) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            await channel.send(Destination(1, *unused.getsockname()), work)  # bound, but not listening

    assert is_freed(fail, Unreachable)


def test_a_failed_request_batch_leaves_no_reference_cycle() -> None:
    async def send(_: int, items: Sequence[Work]) -> Sequence[None]:
        raise Unreachable(f"{len(items)} items")

    async def fail(work: Work) -> None:
        batches: RequestBatches[Work, None] = RequestBatches(send)
        await batches.add(1, "key", work, 1)

    assert is_freed(fail, Unreachable)
