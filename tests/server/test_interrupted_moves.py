"""Moves between log directories that fail or stall at a critical moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode
from kwire.server.replication.replica_moves import LAST_BYTES
from tests.log.faults import FaultyDisk, broken
from tests.server.test_replica_moves import ask_to_move, everything, home_and_away, places, set_rate
from tests.support.raw_client import SECONDS, RawClient
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode


def settings(data_dir: Path, *names: str) -> dict[str, str]:
    return {
        "log.dirs": ",".join(str(data_dir / name) for name in names),
        "metadata.log.dir": str(data_dir / names[-1]),
        "log.segment.delete.delay.ms": "0",
    }


@pytest.fixture
def broker(data_dir: Path, disk: FaultyDisk) -> Iterator[RunningBroker]:
    with RunningBroker(data_dir, settings(data_dir, "d0", "d1"), disk=disk) as running:
        yield running


class HeldFlush:
    """A held flush of a future log, which then fails or succeeds."""

    def __init__(self, disk: FaultyDisk, failure: Callable[[str, str], DiskFailure] | None = None) -> None:
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.count = 0
        self._failure = failure
        disk.fail = self._look

    def _look(self, operation: str, path: str) -> DiskFailure | None:
        if operation != "fsync" or "-future/" not in path or not path.endswith(".log"):
            return None
        self.count += 1
        self.has_begun.set()
        assert self.may_go_on.wait(SECONDS)
        return None if self._failure is None else self._failure(operation, path)


def begin(client: RawClient, data_dir: Path) -> tuple[str, str, str]:
    """Create a topic with a record and request its move; return (topic, home, away)."""
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"a")).error_code == E.NONE
    home, away = home_and_away(client, [str(data_dir / name) for name in ("d0", "d1")], topic)
    assert ask_to_move(client, away, topic) == [E.NONE]
    return topic, home, away


@pytest.mark.parametrize("fails", [False, True])
def test_a_move_cancelled_during_its_flush_changes_nothing(
    broker: RunningBroker, client: RawClient, disk: FaultyDisk, data_dir: Path, *, fails: bool
) -> None:
    held = HeldFlush(disk, broken if fails else None)
    topic, home, _ = begin(client, data_dir)
    assert held.has_begun.wait(SECONDS)
    assert ask_to_move(client, home, topic) == [E.NONE]
    held.may_go_on.set()
    assert produce(client, topic, batch(b"b")).error_code == E.NONE
    eventually(lambda: list(places(client, topic)) == [home], "the future log to be gone")
    assert values_in(fetch(client, topic).records) == [b"a", b"b"]
    assert not broker.call(lambda: broker.server._replicas.logs.directories.any_offline)


def test_records_appended_during_the_flush_are_copied_and_flushed_before_the_swap(
    client: RawClient, disk: FaultyDisk, data_dir: Path
) -> None:
    held = HeldFlush(disk)
    topic, _, away = begin(client, data_dir)
    assert held.has_begun.wait(SECONDS)
    sent = [b"a"]
    while len(sent) * 100_000 < LAST_BYTES * 3:
        sent.append(b"%d" % len(sent) + b"v" * 100_000)
        assert produce(client, topic, batch(sent[-1])).error_code == E.NONE
    held.may_go_on.set()
    eventually(lambda: list(places(client, topic)) == [away], "it has moved")
    assert held.count >= 2
    assert everything(client, topic) == sent


def test_nothing_moves_while_a_directory_is_offline(data_dir: Path) -> None:
    names = ("d0", "d1", "d2")
    with RunningBroker(data_dir, settings(data_dir, *names)) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        directories = [str(data_dir / name) for name in names]
        (home,) = places(client, topic)
        failed, away = [path for path in directories if path != home][:2]
        logs = broker.server._replicas.logs
        (directory,) = [each for each in logs.directories if each.path == failed]
        broker.call(lambda: logs.directories.take_offline(directory, broken("fsync", failed)))
        assert ask_to_move(client, away, topic) == [E.KAFKA_STORAGE_ERROR]
        assert ask_to_move(client, home, topic) == [E.NONE], "it is there"


def test_a_future_log_that_cannot_be_made_is_no_move(client: RawClient, disk: FaultyDisk, data_dir: Path) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    home, away = home_and_away(client, [str(data_dir / name) for name in ("d0", "d1")], topic)
    disk.fail = lambda operation, path: broken(operation, path) if operation == "create" and "-future" in path else None
    assert ask_to_move(client, away, topic) == [E.KAFKA_STORAGE_ERROR]
    disk.fail = lambda operation, path: None
    assert home in places(client, topic)
    assert values_in(fetch(client, topic).records) == [b"a"]


def test_a_move_into_a_cordoned_directory_does_not_continue_after_a_restart(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = settings(data_dir, "d0", "d1")
    with RunningBroker(data_dir, given) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        for _ in range(3):
            produce(client, topic, batch(b"x" * 5000))
        home, away = home_and_away(client, [str(data_dir / name) for name in ("d0", "d1")], topic)
        set_rate(client, 1)
        assert ask_to_move(client, away, topic) == [E.NONE]
        eventually(lambda: places(client, topic)[away + "*"].partition_size > 0, "it has begun")
    with RunningBroker(data_dir, given | {"cordoned.log.dirs": away}) as broker, broker.client() as client:
        eventually(lambda: list(places(client, topic)) == [home], "the future log to be gone")
        assert f"the move of {topic}-0 to {away} does not go on" in caplog.text
        assert len(everything(client, topic)) == 3
