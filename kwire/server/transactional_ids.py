"""What the APIs of transactions have in common: errors put where each answer has room for them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode, KafkaError

T = TypeVar("T")
U = TypeVar("U")


def refusing(call: Callable[[], Answer[T]], finish: Callable[[T], U], refuse: Callable[[KafkaError], U]) -> Answer[U]:
    """finish(what the call answers), or refuse(the error that it raises, now or later)."""
    try:
        answer = call()
    except KafkaError as error:
        return refuse(error)
    return _later(answer, finish, refuse) if inspect.isawaitable(answer) else finish(answer)


async def _later(answer: Awaitable[T], finish: Callable[[T], U], refuse: Callable[[KafkaError], U]) -> U:
    try:
        return finish(await answer)
    except KafkaError as error:
        return refuse(error)


def told(code: ErrorCode, knows_fenced: bool) -> ErrorCode:
    """Older clients know INVALID_PRODUCER_EPOCH for what PRODUCER_FENCED says since (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not knows_fenced else code
