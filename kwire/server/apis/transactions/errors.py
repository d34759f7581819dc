"""Common code of the transaction APIs: errors in the form that each response needs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode, KafkaError

T = TypeVar("T")
U = TypeVar("U")


def rejecting(call: Callable[[], Answer[T]], finish: Callable[[T], U], reject: Callable[[KafkaError], U]) -> Answer[U]:
    """Return finish(result of the call), or reject(error) for an error that it raises, now or later."""
    try:
        answer = call()
    except KafkaError as error:
        return reject(error)
    return _later(answer, finish, reject) if inspect.isawaitable(answer) else finish(answer)


async def _later(answer: Awaitable[T], finish: Callable[[T], U], reject: Callable[[KafkaError], U]) -> U:
    try:
        return finish(await answer)
    except KafkaError as error:
        return reject(error)
    finally:
        del answer  # a future references its error, whose traceback references this frame


def code_for_version(code: ErrorCode, knows_fenced: bool) -> ErrorCode:
    """Return the code for the client; versions before KIP-588 have INVALID_PRODUCER_EPOCH, not PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not knows_fenced else code
