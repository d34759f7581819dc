"""A fetcher and its leader: requests, handling of responses, and pauses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kwire.cluster.channel import Unreachable
from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.replication import fetcher
from kwire.cluster.replication.fetcher import FetchingBroker, ReplicaFetcher
from kwire.log.errors import NotReadyError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartition,
    FetchPartitionData,
    FetchResponse,
)
from kwire.protocol.messages.list_offsets import (
    EARLIEST,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.cluster.replication.world import TOPIC_ID, KnownPeers, append, image, replica, values_of
from tests.support.compiled import replaces_methods
from tests.virtual_loop import VirtualClock, VirtualLoop, virtual_loop

BACKOFF_MS = 1000
SETTINGS = {
    "replica.fetch.max.bytes": 1024 * 1024,
    "replica.fetch.backoff.ms": BACKOFF_MS,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 * 1024 * 1024,
}


class Leader:
    """Leader on broker 1 that responds from its partition; without a session, and at once when there is news."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.asked: list[FetchPartition] = []
        self.requests = 0
        self.trouble: Callable[[FetchPartition], ErrorCode] = lambda asked: ErrorCode.NONE
        self.before_answer: Callable[[], None] = lambda: None
        self.is_away = False

    async def ask(self, request: Any) -> Any:
        self.requests += 1
        if self.is_away:
            raise Unreachable("broker 1 is away")
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        answers = [self._answer(asked) for topic in request.topics for asked in topic.partitions]
        if not any(each.records or each.error_code or each.diverging_epoch.end_offset >= 0 for each in answers):
            await asyncio.sleep(request.max_wait_ms / 1000)
        self.before_answer()
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)])

    def _answer(self, asked: FetchPartition) -> FetchPartitionData:
        self.asked.append(asked)
        log = self.partition.log
        data = FetchPartitionData(
            partition_index=0,
            error_code=self.trouble(asked),
            high_watermark=self.partition.high_watermark,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        epoch, end = log.epoch_end_offset(asked.last_fetched_epoch)
        if data.error_code == ErrorCode.NONE and not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked.last_fetched_epoch >= 0 and (epoch < asked.last_fetched_epoch or end < asked.fetch_offset):
            data.diverging_epoch = FetchEpochEndOffset(epoch=epoch, end_offset=end)
        elif data.error_code == ErrorCode.NONE:
            data.records = log.read(asked.fetch_offset, asked.partition_max_bytes)
        return data

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        log = self.partition.log
        offset = log.log_start_offset if asked.timestamp == EARLIEST else log.log_end_offset
        answer = ListOffsetsPartitionResponse(partition_index=0, error_code=self.trouble_of_offsets, offset=offset)
        if self.leaves_out_offsets:
            return ListOffsetsResponse()
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])

    trouble_of_offsets = ErrorCode.NONE
    leaves_out_offsets = False


class Scene:
    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.loop = loop
        self.is_held = False
        self.recorded: list[int] = []
        self.leader = Leader(replica(directory, image((1,)), KnownPeers(1)))
        self.follower = replica(directory, image((1,)), KnownPeers(2))
        broker = FetchingBroker(
            broker_id=2,
            broker_epoch=lambda: 102,
            settings=CurrentSettings(default_settings() | SETTINGS),
            clock=VirtualClock(loop),
            throttle=self,
        )
        self.fetcher = ReplicaFetcher(1, broker=broker, send=self.leader.ask)
        self._task = loop.create_task(self.fetcher.run())

    def is_throttled(self, partition: Partition, follower_id: int) -> bool:
        return self.is_held

    def record(self, partition: Partition, size: int) -> None:
        self.recorded.append(size)

    def run(self, seconds: float = 3.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        assert not self._task.done()

    def stop(self) -> None:
        self._task.cancel()
        self.loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))

    def lead_in(self, epoch: int) -> None:
        """Make broker 1 the leader in a new epoch; both brokers know the epoch."""
        new = image((1,), leader_epoch=epoch, partition_epoch=epoch)
        self.leader.partition.update(new, is_led=True)
        self.follower.update(new, is_led=False)
        self.fetcher.add(self.follower)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with virtual_loop() as loop:
        scene = Scene(tmp_path, loop)
        append(scene.leader.partition, b"a", b"b", b"c")
        yield scene
        scene.stop()


def test_a_fetcher_copies_records_and_fetches_from_the_new_end(scene: Scene) -> None:
    scene.fetcher.add(scene.follower)
    scene.run()
    append(scene.leader.partition, b"d")
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c", b"d"]
    first, last = scene.leader.asked[0], scene.leader.asked[-1]
    assert (first.fetch_offset, first.last_fetched_epoch, first.current_leader_epoch) == (0, -1, 0)
    assert (last.fetch_offset, last.last_fetched_epoch) == (4, 0)


def test_a_fetcher_without_partitions_sends_no_requests(scene: Scene) -> None:
    scene.run()
    assert scene.leader.requests == 0
    scene.fetcher.add(scene.follower)
    scene.run()
    scene.fetcher.remove(scene.follower)
    scene.run()
    before = scene.leader.requests
    scene.run(60)
    assert scene.leader.requests == before


def test_a_fetcher_truncates_a_diverging_log_and_continues(scene: Scene) -> None:
    scene.fetcher.add(scene.follower)
    scene.run()
    lost = image((2,), leader=2, leader_epoch=1, partition_epoch=1)
    scene.follower.update(lost, is_led=True)
    append(scene.follower, b"lost")
    scene.lead_in(2)
    append(scene.leader.partition, b"d")
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c", b"d"]
    assert scene.follower.log.leader_epochs.entries() == [(0, 0), (2, 3)]


def test_a_log_that_ends_before_the_leaders_log_start_is_restarted(scene: Scene) -> None:
    scene.leader.partition.log.truncate_fully_and_start_at(10)
    append(scene.leader.partition, b"k")
    scene.fetcher.add(scene.follower)
    scene.run()
    assert (scene.follower.log.log_start_offset, values_of(scene.follower)) == (10, [b"k"])


def test_a_log_that_ends_behind_the_leaders_is_cut(scene: Scene) -> None:
    scene.fetcher.add(scene.follower)
    scene.run()
    scene.leader.partition.log.truncate_to(1)
    scene.leader.partition.high_watermark = 1
    scene.follower.log.leader_epochs.clear()  # no epochs to compare
    scene.fetcher.add(scene.follower)
    scene.run()
    assert values_of(scene.follower) == [b"a"]


@replaces_methods
@pytest.mark.parametrize("has_epochs", [True, False])
def test_a_log_that_is_not_ready_to_be_cut_is_cut_later(
    scene: Scene, has_epochs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.fetcher.add(scene.follower)
    scene.run()
    scene.leader.partition.log.truncate_to(1)
    scene.leader.partition.high_watermark = 1
    log = scene.follower.log
    if has_epochs:
        scene.lead_in(1)
        append(scene.leader.partition, b"d")
    else:
        log.leader_epochs.clear()
        scene.fetcher.add(scene.follower)
    cut_to, asked = log.cut_to, itertools.count(1)

    def cut_when_ready(offset: int) -> None:
        if next(asked) < 10:
            raise NotReadyError
        cut_to(offset)

    monkeypatch.setattr(log, "cut_to", cut_when_ready)
    before = scene.leader.requests
    scene.run()
    assert next(asked) > 10
    assert values_of(scene.follower) == ([b"a", b"d"] if has_epochs else [b"a"])
    assert scene.leader.requests - before < 15, "the leader is not asked again for each step"


def test_a_failed_list_offsets_is_retried(scene: Scene) -> None:
    scene.leader.partition.log.truncate_fully_and_start_at(10)
    scene.leader.trouble_of_offsets = ErrorCode.NOT_LEADER_OR_FOLLOWER
    scene.fetcher.add(scene.follower)
    scene.run(5)
    assert scene.follower.log.log_end_offset == 0
    scene.leader.trouble_of_offsets = ErrorCode.NONE
    scene.run(5)
    assert scene.follower.log.log_end_offset == 10


def test_a_list_offsets_response_without_the_partition_is_retried(scene: Scene) -> None:
    scene.leader.partition.log.truncate_fully_and_start_at(10)
    scene.leader.leaves_out_offsets = True
    scene.fetcher.add(scene.follower)
    scene.run(5)
    scene.leader.leaves_out_offsets = False
    scene.run(5)
    assert scene.follower.log.log_end_offset == 10


def test_contradicting_leader_responses_are_retried_after_a_backoff(scene: Scene) -> None:
    def reject_what_is_there(asked: FetchPartition) -> ErrorCode:
        assert len(scene.leader.asked) < 100, "it asks without a pause"
        return ErrorCode.OFFSET_OUT_OF_RANGE

    scene.leader.trouble = reject_what_is_there
    scene.fetcher.add(scene.follower)
    scene.run(2)
    before = len(scene.leader.asked)
    scene.run(10 * BACKOFF_MS / 1000)
    assert 9 <= len(scene.leader.asked) - before <= 11
    scene.leader.trouble = lambda asked: ErrorCode.NONE
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        cast("ErrorCode", 400),  # of a newer version
    ],
)
def test_an_error_is_retried_after_a_backoff(scene: Scene, code: ErrorCode) -> None:
    scene.leader.trouble = lambda asked: code
    scene.fetcher.add(scene.follower)
    scene.run(0.2)
    soon = len(scene.leader.asked)
    assert 3 <= soon <= 5, "at first it pauses for moments"
    scene.run(2)
    before = len(scene.leader.asked)
    scene.run(10 * BACKOFF_MS / 1000)
    assert 9 <= len(scene.leader.asked) - before <= 11
    scene.leader.trouble = lambda asked: ErrorCode.NONE
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


def test_a_new_leader_epoch_ends_the_backoff(scene: Scene) -> None:
    scene.leader.trouble = lambda asked: (
        ErrorCode.FENCED_LEADER_EPOCH if asked.current_leader_epoch < 1 else ErrorCode.NONE
    )
    scene.fetcher.add(scene.follower)
    scene.run(0.1)
    scene.lead_in(1)
    scene.run(0.1)
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


def test_a_leader_that_is_away_is_tried_again(scene: Scene) -> None:
    scene.leader.is_away = True
    scene.fetcher.add(scene.follower)
    scene.run(2)
    before = scene.leader.requests
    assert before >= 6
    scene.run(10 * BACKOFF_MS / 1000)
    assert 9 <= scene.leader.requests - before <= 11
    scene.leader.is_away = False
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


def test_an_answer_to_an_earlier_epoch_is_dropped(scene: Scene) -> None:
    seen: list[int] = []

    def lead_in_another() -> None:
        seen.append(scene.follower.log.log_end_offset)
        if len(seen) == 1:
            scene.lead_in(1)

    scene.leader.before_answer = lead_in_another
    scene.fetcher.add(scene.follower)
    scene.run()
    assert seen[:2] == [0, 0], "the first answer did nothing"
    assert [asked.current_leader_epoch for asked in scene.leader.asked[:2]] == [0, 1]
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


def test_an_answer_after_it_was_removed_is_dropped(scene: Scene) -> None:
    scene.leader.before_answer = lambda: scene.fetcher.remove(scene.follower)
    scene.fetcher.add(scene.follower)
    scene.run()
    assert scene.follower.log.log_end_offset == 0


@replaces_methods
def test_damaged_records_are_not_stored(scene: Scene) -> None:
    good = scene.leader.partition.log.read(0, 2**20)
    bad = bytearray(good)
    bad[-1] ^= 1
    answers = [bytes(bad), good]

    def read(*args: Any) -> bytes:
        return answers.pop(0) if answers else b""

    scene.leader.partition.log.read = read  # type: ignore[method-assign, assignment]
    scene.fetcher.add(scene.follower)
    scene.run(0.01)
    assert scene.follower.log.log_end_offset == 0
    scene.run(2)
    assert (answers, scene.follower.log.log_end_offset) == ([], 3)


def test_a_log_that_has_failed_is_followed_no_more(scene: Scene) -> None:
    scene.fetcher.add(scene.follower)
    scene.run()
    scene.follower.log.health.failure = OSError("the disk")  # type: ignore[assignment]
    append(scene.leader.partition, b"d")
    scene.run()
    before = scene.leader.requests
    scene.run(20)
    assert scene.leader.requests == before


def test_a_log_that_failed_earlier_is_not_fetched(scene: Scene) -> None:
    """Otherwise the leader would see a follower at the log end that cannot append the next records."""
    scene.follower.log.health.failure = OSError("the disk")  # type: ignore[assignment]
    scene.fetcher.add(scene.follower)
    scene.run(20)
    assert scene.leader.requests == 0


@pytest.mark.parametrize("reason", ["space", "throttle"])
def test_an_idle_fetcher_fetches_a_partition_that_was_held_back(scene: Scene, reason: str) -> None:
    scene.run()
    scene.follower.log.health.lacks_space, scene.is_held = reason == "space", reason == "throttle"
    scene.fetcher.add(scene.follower)
    scene.run()
    assert scene.leader.requests == 0
    scene.follower.log.health.lacks_space = scene.is_held = False
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


def test_the_next_fetch_waits_for_the_flush(scene: Scene) -> None:
    flushes: list[Partition] = []
    scene.follower.log.update_config(replace(scene.follower.log.config, flush_messages=1))
    scene.follower._group_commit.request = flushes.append  # type: ignore[method-assign, assignment]
    scene.fetcher.add(scene.follower)
    scene.run(20)
    assert flushes == [scene.follower]
    assert [asked.fetch_offset for asked in scene.leader.asked] == [0]
    scene.follower.log.flush()
    scene.follower.flushed()
    scene.run()
    assert scene.leader.asked[-1].fetch_offset == 3


def test_a_throttled_partition_is_not_fetched(scene: Scene) -> None:
    scene.is_held = True
    scene.fetcher.add(scene.follower)
    scene.run(10)
    assert scene.leader.requests == 0
    scene.is_held = False
    scene.run()
    assert scene.recorded[0] == scene.follower.log.size_in_bytes > 0


def test_a_completed_flush_does_not_end_the_backoff(scene: Scene) -> None:
    scene.is_held = True
    scene.fetcher.add(scene.follower)
    scene.is_held = False
    assert scene.follower.on_log_durable is not None
    scene.follower.on_log_durable()
    scene.run(0)
    assert scene.leader.requests == 0
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.FETCH_SESSION_ID_NOT_FOUND])
def test_a_request_that_is_rejected_as_a_whole_is_repeated(scene: Scene, code: ErrorCode) -> None:
    """The retry follows at once if only the session is lost, else after a pause."""
    rejected: list[float] = []
    ask = scene.leader.ask

    async def reject(request: Any) -> Any:
        if len(rejected) < 3:
            rejected.append(scene.loop.time())
            return FetchResponse(error_code=code)
        return await ask(request)

    scene.fetcher._send = reject
    scene.fetcher.add(scene.follower)
    scene.run(4 * BACKOFF_MS / 1000)
    assert values_of(scene.follower) == [b"a", b"b", b"c"]
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(rejected)]
    assert pauses == ([0, 0] if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else [1, 1])


def test_a_large_response_is_appended_in_steps(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "BYTES_AT_ONCE", 1)
    turns: list[tuple[int, int]] = []

    def take_turn() -> None:
        turns.append((scene.follower.log.log_end_offset, scene.leader.requests))

    def before_answer() -> None:
        scene.loop.call_soon(take_turn)

    scene.leader.before_answer = before_answer
    scene.fetcher.add(scene.follower)
    scene.run()
    assert values_of(scene.follower) == [b"a", b"b", b"c"]
    assert turns[0] == (3, 1), "before it asked again"


def test_a_partition_that_went_while_the_leader_was_asked_for_its_range_is_left_alone(scene: Scene) -> None:
    scene.leader.partition.log.truncate_fully_and_start_at(10)
    ask = scene.leader.ask

    async def take_away(request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            scene.fetcher.remove(scene.follower)
        return await ask(request)

    scene.fetcher._send = take_away
    scene.fetcher.add(scene.follower)
    scene.run(5)
    assert scene.follower.log.log_end_offset == 0
    scene.fetcher._send = ask
    scene.fetcher.add(scene.follower)
    scene.run(5)
    assert scene.follower.log.log_end_offset == 10
