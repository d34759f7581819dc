"""Answers of requests that write to a shard of the group coordinator; errors become answers of the API's own form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kwire.coordinator.answers import Answer
from kwire.coordinator.group.machine import GroupMachine
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Shard, Write
from kwire.protocol.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

GroupShard = Shard[GroupRecord, GroupMachine]


def write_and_answer(shard: GroupShard, write: Write[GroupRecord, T], reject: Callable[[ErrorCode], T]) -> Answer[T]:
    """Write, and return the answer when the records are committed; `reject` returns the answer for an error."""
    try:
        with shard:
            outcome = shard.write(write)
    except KafkaError as error:
        return reject(error.code)
    return with_late_errors(outcome, reject)


def with_late_errors(outcome: T | asyncio.Future[T], reject: Callable[[ErrorCode], T]) -> Answer[T]:
    """Return the answer; errors that occur later are put into it like immediate ones."""
    return _later(outcome, reject) if isinstance(outcome, asyncio.Future) else outcome


async def _later(outcome: asyncio.Future[T], reject: Callable[[ErrorCode], T]) -> T:
    try:
        return await outcome
    except KafkaError as error:
        return reject(error.code)
    finally:
        del outcome  # it references the error, whose traceback references this frame
